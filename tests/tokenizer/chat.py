"""Chat templates as transformers renders and tokenizes them: writes chat.json beside this file, for chat_test.cpp.

    python3 chat.py --write-fixtures

The tokenizers are those of fixtures.json with the marks of the templates added. Each case holds the conversation, its
text, ids and the tokens that `apply_chat_template(return_assistant_tokens_mask=True)` marks."""

import json
import pathlib
import sys

try:
    import tokenizers
    import transformers
except ImportError:
    print("skipped: transformers is not installed")
    sys.exit(0)

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
    "plain": "{% for message in messages %}{{ message['role'] + ': ' }}"
             + TURN.replace("BODY", "{{ message['content'] + '\n' }}")
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


def with_marks(described):
    tokenizer = tokenizers.Tokenizer.from_str(json.dumps(described))
    tokenizer.add_special_tokens(MARKS)
    return json.loads(tokenizer.to_str())


def write_fixtures():
    cases = []
    for entry in json.loads((FOLDER / "fixtures.json").read_text())["cases"]:
        if entry["name"] not in KINDS:
            continue
        described = with_marks(entry["tokenizer"])
        for template in TEMPLATES:
            for i, messages in enumerate(CONVERSATIONS):
                prompt = messages[-1]["role"] == "user" or i == 0
                cases.append({"tokenizer": entry["name"], "template": template, "messages": messages, "prompt": prompt,
                              **reference(described, template, messages, prompt)})
    path = FOLDER / "chat.json"
    path.write_text(json.dumps({"package": f"transformers {transformers.__version__}", "marks": MARKS, "cases": cases},
                               separators=(",", ":")) + "\n")
    print(f"{path}: {len(cases)} cases, {path.stat().st_size} bytes")


if __name__ == "__main__":
    if sys.argv[1:] != ["--write-fixtures"]:
        sys.exit(__doc__)
    write_fixtures()
