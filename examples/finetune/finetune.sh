#!/usr/bin/env bash
# Fine-tunes a Hugging Face model on conversations, from start to end: training on several ranks with ZeRO-3,
# evaluation, a chat, and an export to a Hugging Face folder that transformers loads.
#
#   bash examples/finetune/finetune.sh OUT [options of ltrain train]...
#
# Environment variables (default):
#   BASE           folder of the model to tune; its tokenizer.json must have the marks of ChatML
#                  (a small model with random weights, made by make_base.py)
#   CONVERSATIONS  file of JSON lines (made by conversations.py)
#   LTRAIN         the program (build/release/ltrain or build/cpu/ltrain)
#   RANKS          number of ranks (2)
#   SEQ            tokens of a packed row (128)
#   QUESTION       the question of the chat
#   PYTHON         an interpreter with torch, transformers and tokenizers (python3)
#   MPIRUN         the launcher (mpirun --oversubscribe)
# Takes under five minutes on two processor cores. If started again with the same OUT, the run continues where it
# stopped, or is already complete. With other data, or other options of the model or optimizer, it is refused;
# --checkpoint.resume=never --run.force starts from the beginning.
set -euo pipefail
unset CDPATH
here=$(cd "$(dirname "$0")" && pwd)
out=${1:?expected a folder for everything that is made: bash examples/finetune/finetune.sh OUT}
shift
ltrain=${LTRAIN:-$here/../../build/release/ltrain} python=${PYTHON:-python3} ranks=${RANKS:-2} seq=${SEQ:-128}
question=${QUESTION:-Which country is Cori in?}
read -ra mpirun <<< "${MPIRUN:-mpirun --oversubscribe}"
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
[ -n "${LTRAIN:-}" ] || [ -x "$ltrain" ] || ltrain=$here/../../build/cpu/ltrain
[ -x "$(command -v "$ltrain")" ] || { echo "error: [finetune] $ltrain: expected the program, found none; LTRAIN names another" >&2; exit 2; }
mkdir -p "$out"
"$python" -c 'import tokenizers, torch, transformers' || { echo "skipped: $python lacks one of them"; exit 77; }

conversations=${CONVERSATIONS:-$out/conversations.jsonl}
[ -n "${CONVERSATIONS:-}" ] || "$python" "$here/conversations.py" > "$conversations"
base=${BASE:-$out/base}
[ -n "${BASE:-}" ] || "$python" "$here/make_base.py" --text "$conversations" --out "$base"

echo "== conversations to tokens, packed into rows of $seq; only the assistant's words are trained"
"$ltrain" prepare --input "$conversations" --chat chatml --pack "$seq" --tokenizer "$base/tokenizer.json" --out "$out/data" \
  --val-fraction 0 --force

echo "== fine-tuning on $ranks ranks: ZeRO-3, documents kept apart"
"${mpirun[@]}" -n "$ranks" "$ltrain" train --model.from="$base" --data.train="$out/data/train*.bin" --data.documents=mask \
  --train.seq="$seq" --train.micro_batch=4 --train.steps=150 --optim.lr=3e-3 --optim.warmup=10 --optim.weight_decay=0 \
  --parallel.strategy=zero3 --record.every=50 --run.dir="$out/run" "$@"

echo "== evaluation: the loss on the assistant's words"
"${mpirun[@]}" -n "$ranks" "$ltrain" eval "$out/run" --data "$out/data/train.bin"

echo "== chat"
echo "user: $question"
answer=$("$ltrain" sample "$out/run" --chat chatml --prompt "$question" --tokens 64 --temperature 0 2> "$out/sample.log")
answer=${answer#"$question"$'\n'}
echo "assistant: $answer"

echo "== export"
rm -rf "$out/tuned"
"$ltrain" checkpoint export "$out/run" --out "$out/tuned"
"$python" "$here/check_export.py" "$out/tuned" "$question" "$answer"
