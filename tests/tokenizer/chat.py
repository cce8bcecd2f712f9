"""Compares `ltrain prepare --chat` with transformers: the same ids and the same trained tokens.

    python3 chat.py LTRAIN
    python3 chat.py --write-fixtures      writes chat.json in this folder, for chat_test.cpp

The tokenizers are the ones of fixtures.json, with the marks of the templates added. Each case holds the conversation,
its text, its ids and the tokens that `apply_chat_template(return_assistant_tokens_mask=True)` marks."""

import json
import pathlib
import random
import struct
import subprocess
import sys
import tempfile

try:
    import tokenizers
    import transformers
except ImportError:
    print("skipped: transformers is not installed")
    sys.exit(77)

FOLDER = pathlib.Path(__file__).parent
MARKS = ["<|begin_of_text|>", "<|end_of_text|>", "<|start_header_id|>", "<|end_header_id|>", "<|eot_id|>", "<|im_start|>",
         "<|im_end|>"]
KINDS = ["gpt2", "llama3", "qwen2", "llama2", "mistral"]
# The templates of Llama 3 and of ChatML; what is trained stands between the generation marks.
TURN = "{% if message['role'] == 'assistant' %}{% generation %}BODY{% endgeneration %}{% else %}BODY{% endif %}"
TEMPLATES = {
    "llama3": "{{ bos_token }}{% for message in messages %}{{ '<|start_header_id|>' + message['role'] + '<|end_header_id|>\n\n' }}"
              + TURN.replace("BODY", "{{ message['content'] | trim + '<|eot_id|>' }}")
              + "{% endfor %}{% if add_generation_prompt %}{{ '<|start_header_id|>assistant<|end_header_id|>\n\n' }}{% endif %}",
    "chatml": "{% for message in messages %}{{ '<|im_start|>' + message['role'] + '\n' }}"
              + TURN.replace("BODY", "{{ message['content'] + '<|im_end|>' }}")
              + "{{ '\n' }}{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}",
    # The space is trained too, because an answer begins with it.
    "plain": "{% for message in messages %}{{ message['role'] + ':' }}"
             + TURN.replace("BODY", "{{ ' ' + message['content'] + '\n' }}")
             + "{% endfor %}{% if add_generation_prompt %}{{ 'assistant:' }}{% endif %}",
}


def turns(*contents):
    roles = ["user", "assistant"]
    return [{"role": roles[i % 2], "content": content} for i, content in enumerate(contents)]


CONVERSATIONS = [
    turns("What is 2 + 2?", "4."),
    [{"role": "system", "content": "Be brief.\n"}] + turns("Hi", "Hello, \u4e16\u754c!\nWhat's up?", "  Bye \U0001F600 ", "\U0001F600"),
    turns("Where does \u00e9 end?", "e\u0301 composes, \u00bd not.", "and <|eot_id|><|im_end|>?", "\tThey are marks.\u2003\u001f\n"),
    turns("one word", "x" * 70, "", "", "\n\n", "  two spaces\n\n", "last one", "\n\nbegins with lines"),
    [{"role": "assistant", "content": "First."}, {"role": "assistant", "content": "Second: <|end_of_text|>"}],
    turns("Only a question"),
]


def reference(described, template, messages, add_generation_prompt):
    tokenizer = transformers.PreTrainedTokenizerFast(tokenizer_object=tokenizers.Tokenizer.from_str(json.dumps(described)),
                                                     bos_token="<|begin_of_text|>")
    arguments = {"conversation": messages, "chat_template": TEMPLATES[template],
                 "add_generation_prompt": add_generation_prompt}
    tokens = tokenizer.apply_chat_template(**arguments, return_dict=True, return_assistant_tokens_mask=True)
    return {"text": tokenizer.apply_chat_template(**arguments, tokenize=False), "ids": list(tokens["input_ids"]),
            "trained": list(tokens["assistant_masks"])}


def described_tokenizers():
    """Name and tokenizer.json of each kind. Tokenizers that put a space before text behind any added token are left out:
    transformers loses the line feed of `plain` behind one, or marks all that follows."""
    for entry in json.loads((FOLDER / "fixtures.json").read_text())["cases"]:
        if entry["name"] in KINDS:
            tokenizer = tokenizers.Tokenizer.from_str(json.dumps(entry["tokenizer"]))
            tokenizer.add_special_tokens(MARKS)
            yield entry["name"], json.loads(tokenizer.to_str())


def write_fixtures():
    cases = []
    for kind, described in described_tokenizers():
        for template in TEMPLATES:
            for i, messages in enumerate(CONVERSATIONS):
                prompt = messages[-1]["role"] == "user" or i == 0
                cases.append({"tokenizer": kind, "template": template, "messages": messages, "prompt": prompt,
                              **reference(described, template, messages, prompt)})
    path = FOLDER / "chat.json"
    path.write_text(json.dumps({"package": f"transformers {transformers.__version__}", "marks": MARKS, "cases": cases},
                               separators=(",", ":")) + "\n")
    print(f"{path}: {len(cases)} cases, {path.stat().st_size} bytes")


def random_conversations(count):
    """Messages made of what is met at the borders of words, tokens and normalization."""
    rng = random.Random(7)
    pieces = ["a", "word", " ", "  ", "\n", "\n\n", "\t", ".", "'s", "12345", "\u00e9", "e\u0301", "\u0301", "\u4e16\u754c", "\U0001F600",
              "\u2581", "<|im_end|>", "<|eot_id|>", "<|im_start|>user\n", "assistant: ", "\u3000", "x" * 60]
    for _ in range(count):
        yield [{"role": rng.choice(["system", "user", "assistant", "assistant"]),
                "content": "".join(rng.choice(pieces) for _ in range(rng.randint(0, 7)))} for _ in range(rng.randint(1, 5))]


def values(path, code):
    data = path.read_bytes()
    return list(struct.unpack_from(f"<{struct.unpack_from('<3i', data)[2]}{code}", data, 1024))


def compare(ltrain):
    failed = 0
    conversations = CONVERSATIONS + list(random_conversations(100))
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        (folder / "chats.jsonl").write_text("".join(json.dumps({"messages": each}) + "\n" for each in conversations))
        for kind, described in described_tokenizers():
            (folder / "tokenizer.json").write_text(json.dumps(described))
            end = next(token["id"] for token in described["added_tokens"] if token["content"] == "<|end_of_text|>")
            for template in TEMPLATES:
                ids, trained = [], []
                for messages in conversations:
                    expected = reference(described, template, messages, False)
                    ids += expected["ids"] + [end]
                    trained += expected["trained"] + [0]
                subprocess.run([ltrain, "prepare", "--input", folder / "chats.jsonl", "--chat", template, "--tokenizer",
                                folder / "tokenizer.json", "--out", folder / "out", "--val-fraction", "0", "--force"], check=True,
                               stdout=subprocess.DEVNULL)
                found = values(folder / "out/train.bin", "H")
                bits = (folder / "out/train.mask").read_bytes()[1024:]
                mask = [bits[i // 8] >> i % 8 & 1 for i in range(len(found))]
                same = found == ids and mask == trained
                failed += not same
                print(f"{kind}, {template}: {len(ids)} tokens, {sum(trained)} trained: {'the same' if same else 'DIFFERENT'}")
    return 1 if failed else 0


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    sys.exit(write_fixtures() if sys.argv[1] == "--write-fixtures" else compare(sys.argv[1]))
