"""Importing this module ends a test with exit code 77 (skipped) if torch or transformers is missing. Nothing is
downloaded."""

import os
import sys

os.environ["HF_HUB_OFFLINE"] = "1"
try:
    import torch  # noqa: F401
    import transformers  # noqa: F401
except ImportError as missing:
    print(f"skipped: {missing}")
    sys.exit(77)
