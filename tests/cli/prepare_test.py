"""`ltrain prepare`: its files, output, errors and exit codes; and the help, version and usage errors of `ltrain`."""

import gzip
import json
import os
import signal
import struct
import subprocess

import program


def tokens(path):
    content = path.read_bytes()
    magic, version, count = struct.unpack("<3i", content[:12])
    assert (magic, version) == (20240520, 1) and content[12:1024] == bytes(1012)
    assert len(content) == 1024 + 2 * count
    return bytes(struct.unpack(f"<{count}H", content[1024:]))


def slurm_step(rank):
    """Variables of a task of a step of two, on one host."""
    return {"SLURM_JOB_ID": "1", "SLURM_STEP_ID": "0", "SLURM_PROCID": str(rank), "SLURM_LOCALID": str(rank), "SLURM_NTASKS": "2",
            "SLURM_NNODES": "1", "SLURM_NODEID": "0"}


class Prepare(program.CliTest):
    def prepare(self, *inputs, ranks=1, options=("--tokenizer", "byte")):
        return program.run("prepare", "--input", *inputs, *options, "--out", self.folder / "out", ranks=ranks)

    def names(self):
        out = self.folder / "out"
        return sorted(entry.name for entry in out.iterdir()) if out.exists() else None

    def test_writes_tokens_of_all_files_and_says_so(self):
        text = self.write("a.txt", bytes(range(256)) * 2)
        lines = self.write("b.jsonl", '{"text": "Zürich"}\n{"text": "!\\n"}\n')
        done = self.prepare(text, lines)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        self.assertEqual(done.stdout,
                         f"{self.folder}/out: 469 training tokens, 52 validation tokens from 2 files "
                         "(521 bytes of text)\n")
        whole = bytes(range(256)) * 2 + "Zürich!\n".encode()
        self.assertEqual(tokens(self.folder / "out/train.bin"), whole[:469])
        self.assertEqual(tokens(self.folder / "out/val.bin"), whole[469:])
        self.assertEqual((self.folder / "out/tokenizer.json").read_text(), '{"type":"byte","vocab":256}\n')
        self.assertEqual(self.names(), ["tokenizer.json", "train.bin", "val.bin"])

    def test_the_written_tokenizer_is_accepted_again_and_nothing_is_overwritten_without_force(self):
        text = self.write("a.txt", "0123456789")
        self.assertEqual(self.prepare(text).returncode, 0)
        options = ("--tokenizer", self.folder / "out/tokenizer.json", "--val-fraction", "0.5")
        self.assert_error(self.prepare(text, options=options), 2,
                          f"[data] out: {self.folder}/out: expected a folder without train.bin, found one",
                          "choose another --out; --force writes over the token files there")
        self.assertEqual(tokens(self.folder / "out/train.bin"), b"012345678")
        again = self.prepare(text, options=(*options, "--force"))
        self.assertEqual(again.returncode, 0, again.stderr)
        self.assertEqual(tokens(self.folder / "out/val.bin"), b"56789")
        (self.folder / "out/train.bin").unlink()
        self.assert_error(self.prepare(text, options=("--val-fraction", "0")), 2,
                          f"[data] out: {self.folder}/out: expected a folder without val.bin, found one",
                          "choose another --out; --force writes over the token files there")
        self.assertEqual(tokens(self.folder / "out/val.bin"), b"56789")

    def test_ranks_prepare_once(self):
        done = self.prepare(self.write("a.txt", "0123456789"), ranks=2)
        self.assertEqual((done.returncode, done.stdout.count("training tokens")), (0, 1), done.stderr)
        self.assertEqual(self.names(), ["tokenizer.json", "train.bin", "val.bin"])

    def test_a_named_pipe_is_opened_once(self):
        pipe = self.folder / "pipe.txt"
        os.mkfifo(pipe)
        writer = subprocess.Popen(["sh", "-c", 'printf text > "$1"', "sh", pipe])  # ends as soon as somebody has opened it
        self.addCleanup(writer.wait)
        self.addCleanup(writer.kill)
        done = self.prepare(pipe, options=("--val-fraction", "0"))
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        self.assertEqual(tokens(self.folder / "out/train.bin"), b"text")

    def test_no_file_gets_the_number_of_a_closed_standard_descriptor(self):
        pipe = self.folder / "pipe.txt"
        os.mkfifo(pipe)
        prepare = (program.ltrain(), "prepare", "--input", pipe, "--out", self.folder / "out", "--val-fraction", "0")
        with subprocess.Popen([str(part) for part in prepare], env=program.clean_environment(),
                              preexec_fn=program.closing((0, 1, 2))) as process:
            with open(pipe, "w") as text:  # once `prepare` has opened it, after files of its own
                self.assertEqual([os.readlink(f"/proc/{process.pid}/fd/{number}") for number in range(3)], ["/dev/null"] * 3)
                text.write("text")
        self.assertEqual(process.returncode, 0)
        self.assertEqual(tokens(self.folder / "out/train.bin"), b"text")
        self.assert_error(program.run("prepare", "--input", "-", "--out", self.folder / "none", closed=(0,)), 3,
                          "[data] -: offset 0: cannot read: Bad file descriptor")

    def test_a_training_file_without_a_token_is_told(self):
        done = self.prepare(self.write("a.txt", "text"), options=("--val-fraction", "0.9999999"))
        self.assertEqual((done.returncode, done.stderr),
                         (0, f"warning: [data] --val-fraction 0.9999999 of 4 tokens leaves none for training: {self.folder}/out/train.bin is empty\n"))

    def test_a_validation_file_without_a_token_is_told(self):
        done = self.prepare(self.write("a.txt", "text"))
        self.assertEqual((done.returncode, done.stderr),
                         (0, f"warning: [data] --val-fraction 0.1 of 4 tokens is less than a token: {self.folder}/out/val.bin is empty\n"))
        with open("/dev/full", "w") as full:  # a warning without room ends nothing
            done = program.run("prepare", "--input", self.folder / "a.txt", "--out", self.folder / "again", stderr=full)
        self.assertEqual(done.returncode, 0)

    def test_bad_input_is_exit_3_with_nothing_written(self):
        good = self.write("good.txt", "text")
        missing = self.folder / "none.txt"
        self.assert_error(self.prepare(good, missing), 3,
                          f"[data] {missing}: expected a readable file, found: No such file or directory")
        self.assert_error(self.prepare(self.folder), 3, f"[data] {self.folder}: expected a readable file, found: a folder")
        self.assert_error(self.prepare(self.folder / "*.md"), 3,
                          f"[data] {self.folder}/*.md: expected at least one file, the pattern matches none")
        self.assert_error(self.prepare(self.write("empty.jsonl", '{"text": "a"}\n{"text": ""}\n')), 3,
                          f'[data] {self.folder}/empty.jsonl:2: field "text": expected text, found an empty document')
        self.assert_error(self.prepare(self.write("empty.txt", "")), 3,
                          f"[data] {self.folder}/empty.txt: expected text, found none")
        lines = self.write("a.jsonl", '{"text": "x"}\n{"txt": "x"}\n')
        self.assert_error(self.prepare(lines), 3, f'[data] {lines}:2: field "text": expected a string, found none',
                          "--field NAME says which field holds the text")
        self.assertIsNone(self.names())

    def test_what_is_no_text_or_no_json_lines_is_told(self):
        packed = self.write("packed.txt", gzip.compress(b"hello world " * 100))
        letters = self.write("letters.json", '{"model": {"type": "BPE", "vocab": {"a": 0, "s": 1}, "merges": []}}')
        self.assert_error(self.prepare(packed, options=("--tokenizer", letters)), 3,
                          f"[data] {packed}: expected text in UTF-8 without bytes 0, found gzip data",
                          "it is decompressed if its name ends in .gz, and by `zcat` before standard input")
        encoded = self.write("encoded.jsonl", '{"text": "hello"}\n'.encode("utf-16-le"))
        self.assert_error(self.prepare(encoded), 3,
                          f"[data] {encoded}: expected text in UTF-8 without bytes 0, found a byte 0 at offset 1",
                          "binary data has such bytes, and text in UTF-16, which `iconv -f UTF-16 -t UTF-8` rewrites; `tr -d "
                          "'\\0'` removes them from other text")
        latin = self.write("latin.jsonl", '{"text": "x"}\n{"text": "café"}\n'.encode("latin-1"))
        self.assert_error(self.prepare(latin), 3,
                          f"[data] {latin}:2: expected a JSON object on one line, found bytes that are not UTF-8, 0xe9 at "
                          "column 14",
                          "JSON is UTF-8: `iconv -f LATIN1 -t UTF-8 FILE` rewrites a file of Latin-1")
        array = self.write("array.ndjson", '[{"text": "x"}]\n')
        self.assert_error(self.prepare(array), 3, f"[data] {array}:1: expected a JSON object on one line, found array",
                          "JSON lines are objects, one a line: `jq -c '.[]' FILE` writes those of an array so")
        prose = self.write("prose.txt", "hello\n")
        self.assert_error(self.prepare(prose, options=("--chat", "plain")), 3,
                          f"[data] {prose}:1: expected a JSON object on one line, found broken JSON at column 1: syntax error "
                          "while parsing value - invalid literal; last read: 'h'")
        self.assertIsNone(self.names())

    def test_a_long_line_of_json_takes_less_than_8_bytes_a_byte(self):
        size = 24_000_000
        lines = self.write("long.jsonl", b'{"text":"' + b"x" * size + b'"}\n')
        child = program.started("prepare", "--input", lines, "--out", self.folder / "out", "--val-fraction", 0)
        with child.stdout, child.stderr:
            self.assertIn(f"{size} training tokens", child.stdout.read(), child.stderr.read())
        _, status, usage = os.wait4(child.pid, 0)
        child.returncode = os.waitstatus_to_exitcode(status)
        self.assertEqual(child.returncode, 0)
        self.assertLess(usage.ru_maxrss * 1024, 8 * size)

    def test_standard_input_is_text_or_json_lines(self):
        def fed(data, *options):
            command = program.launched(program.ltrain(), "prepare", "--input", "-", "--out", self.folder / "out",
                                       "--val-fraction", "0", "--force", *options)
            return subprocess.run(command, input=data, env=program.clean_environment(), capture_output=True, timeout=60)

        done = fed(b'{"a": 1}\n')
        self.assertEqual((done.returncode, done.stderr), (0, b""))
        self.assertEqual(tokens(self.folder / "out/train.bin"), b'{"a": 1}\n')
        self.assertEqual(fed(b'{"a": "x"}\n{"a": "y"}', "--field", "a").returncode, 0)
        self.assertEqual(tokens(self.folder / "out/train.bin"), b"xy")
        self.assertEqual(fed(b'{"a": "x"}\n', "--field", "text").stderr.decode(),
                         'error: [data] -:1: field "text": expected a string, found none\n'
                         'hint: --field NAME says which field holds the text\n')

    def test_conversations_have_masks(self):
        lines = self.write("a.jsonl", '{"messages": [{"role": "user", "content": "?"}, '
                                      '{"role": "assistant", "content": "!"}]}\n')
        done = self.prepare(lines, options=("--chat", "plain", "--val-fraction", "0"))
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        self.assertEqual(done.stdout,
                         f"{self.folder}/out: 21 training tokens, 0 validation tokens from 1 file (2 bytes of message contents)\n"
                         "19 of the tokens are no targets, as the .mask files say\n")
        mask = (self.folder / "out/train.mask").read_bytes()
        self.assertEqual(struct.unpack("<3i", mask[:12]), (20261124, 1, 21))
        self.assertEqual(mask[1024:], bytes([0, 0, 0b00011000]))
        self.assertEqual(self.names(), ["tokenizer.json", "train.bin", "train.mask"])
        asked = self.write("q.jsonl", '{"messages": [{"role": "user", "content": "?"}]}\n' * 2)
        done = self.prepare(lines, asked, options=("--chat", "plain", "--val-fraction", "0", "--force"))
        self.assertEqual((done.returncode, done.stderr), (0, "warning: [data] 2 of 3 conversations train nothing: no message "
                                                             "of the assistant counts\n"))
        self.assert_error(self.prepare(asked, options=("--chat", "plain", "--force")), 3,
                          f"[data] {asked}: expected a message of the role assistant that counts, which is what conversations "
                          "train, found none in 2")
        self.assert_error(self.prepare(lines, options=("--force",)), 3,
                          f'[data] {lines}:1: field "text": expected a string, found none', "--chat TEMPLATE reads conversations")
        bad = self.write("b.jsonl", '\n{"messages": [{"role": "robot", "content": "x"}]}\n')
        self.assert_error(self.prepare(bad, options=("--chat", "plain", "--force")), 3,
                          f'[data] {bad}:2: field "messages[0].role": expected one of system, user, assistant, found "robot"')
        self.assert_error(self.prepare(bad, options=("--chat", "alpaca", "--force")), 2,
                          '[tokenizer] chat: expected one of llama3, chatml, plain, got "alpaca"')

    def test_fields_of_conversations_are_honoured_refused_or_counted(self):
        def conversation(*messages, **beside):
            return json.dumps({**beside, "messages": [dict(role=role, content=content, **more) for role, content, more in messages]}) + "\n"

        def prepared(text):
            return self.prepare(self.write("a.jsonl", text), options=("--chat", "plain", "--val-fraction", "0", "--force"))

        def targets(text, warning=""):
            done = prepared(text)
            self.assertEqual((done.returncode, done.stderr), (0, warning))
            count, bits = len(tokens(self.folder / "out/train.bin")), (self.folder / "out/train.mask").read_bytes()[1024:]
            return count, [i for i in range(count) if bits[i // 8] >> i % 8 & 1]

        for mask, other in (({"weight": 0}, {"weight": 1}), ({"train": False}, {"train": True}), ({"weight": 0.0, "train": True}, {})):
            turns = (("user", "q", {}), ("assistant", "bad", mask), ("user", "r", {}), ("assistant", "good", other))
            self.assertEqual(targets(conversation(*turns)), (47, [42, 43, 44, 45, 46]))
        # Arrow fills absent fields with nulls.
        empty = {"tool_calls": None, "function_call": {"name": None, "arguments": ""}, "audio": [], "name": "", "weight": None}
        plain = conversation(("user", "q", empty), ("assistant", "x", empty), tools=[], system=None)
        self.assertEqual(targets(plain), targets(conversation(("user", "q", {}), ("assistant", "x", {}))))
        unused = (("messages[].id", "1 message"), ("messages[].name", "2 messages"), ("messages[].weight", "1 message"),
                  ("tools", "1 conversation"))
        text = conversation(("user", "q", {"name": "Al", "weight": 1}), ("assistant", "x", {"name": "Bo", "id": 7}),
                            tools=[{"type": "function"}], id=3, source="s")
        warnings = "".join(f'warning: [data] field "{field}" of {count} has no effect\n' for field, count in unused)
        self.assertEqual(targets(text, warnings), (21, [19, 20]))
        content = 'write such fields and messages into "content" of a user or assistant, or leave the conversation out'
        call = {"type": "function", "function": {"name": "mul", "arguments": {"a": 12, "b": 12}}}
        for more, name, expected, hint in (
                ({"tool_calls": [call]}, "tool_calls", "no such field, since no template writes it, found array",
                 content),
                ({"function_call": {"name": "f", "arguments": "{}"}}, "function_call", "no such field, since no template writes it, found object",
                 content),
                ({"reasoning_content": "so"}, "reasoning_content", "no such field, since no template writes it, found string",
                 content),
                ({"loss": False}, "loss", "no such field, since it does not choose the targets here, found boolean",
                 '"train": false says that a message has none'),
                ({"weight": 0.5}, "weight", "0 or 1, found 0.5", None), ({"weight": True}, "weight", "0 or 1, found boolean", None),
                ({"train": "no"}, "train", "true or false, found string", None)):
            self.assert_error(prepared(conversation(("user", "12*12?", {}), ("assistant", "", more))), 3,
                              f'[data] {self.folder}/a.jsonl:1: field "messages[1].{name}": expected {expected}', hint)

    def test_a_killed_run_is_continued_and_says_so(self):
        text = self.write("a.txt", "0123456789")
        arguments = ("prepare", "--input", text, "--out", self.folder / "out")
        killed = program.run(*arguments, environment={"LTRAIN_FAULT": "prepare-rename:0:0:kill"})
        self.assertEqual((killed.returncode, killed.stdout), (-signal.SIGKILL, ""))
        self.assertIn("prepare.tmp", self.names())
        self.assertNotIn("train.bin", self.names())
        done = program.run(*arguments)
        self.assertEqual((done.returncode, done.stderr), (0, "prepare: continues what an earlier run has done\n"))
        self.assertEqual(tokens(self.folder / "out/train.bin"), b"012345678")
        self.assertEqual(self.names(), ["tokenizer.json", "train.bin", "val.bin"])

    def test_what_another_call_left_behind_does_not_stand_for_force(self):
        first, second = self.write("a.txt", "0123456789"), self.write("b.txt", "other text")
        self.assertEqual(self.prepare(first).returncode, 0)
        killed = program.run("prepare", "--input", second, "--out", self.folder / "out", "--force",
                             environment={"LTRAIN_FAULT": "prepare:0:1:kill"})
        self.assertEqual(killed.returncode, -signal.SIGKILL)
        for text in (first, second):
            self.assert_error(self.prepare(text), 2, f"[data] out: {self.folder}/out: expected a folder without train.bin, found one",
                              "choose another --out; --force writes over the token files there")
        self.assertEqual(tokens(self.folder / "out/train.bin"), b"012345678")
        self.assertEqual(self.prepare(first, options=("--force",)).returncode, 0)
        self.assertEqual(self.names(), ["tokenizer.json", "train.bin", "val.bin"])

    def test_one_message_under_ranks(self):
        missing = self.folder / "none.txt"
        self.assert_error(self.prepare(missing, ranks=3), 3,
                          f"[data] {missing}: expected a readable file, found: No such file or directory")

    def test_wrong_usage_is_exit_2(self):
        text = self.write("a.txt", "text")
        self.assert_error(program.run("prepare", "--out", "x"), 2, "[usage] --input: expected a value, got none",
                          "ltrain prepare --help")
        self.assert_error(program.run("prepare", "--inptu", text, "--out", "x"), 2, "[usage] unknown option --inptu",
                          "did you mean --input?")
        self.assert_error(self.prepare(text, options=("--val-fraction", "1")), 2,
                          "[data] val-fraction: expected a number in [0, 1), got 1")
        self.assert_error(self.prepare(text, options=("--tokenizer", "bpe")), 2,
                          '[data] tokenizer: expected byte, a tokenizer.json or a folder that holds one, got "bpe"')
        self.assert_error(self.prepare(text, options=("--tokenizer", self.folder)), 3,
                          f"[data] {self.folder}/tokenizer.json: expected a readable file, found: No such file or directory")
        self.assert_error(self.prepare(text, options=("--chat", "chatml")), 2,
                          "[tokenizer] chat: template chatml: expected a tokenizer with the added token <|im_start|>, found none",
                          "the template plain needs no added tokens")
        self.assert_error(self.prepare(text, options=("--field", "body")), 2,
                          f"[data] field: has no effect on text, and {text} has nothing else",
                          "a name that ends in .jsonl makes JSON lines of a file, and so does standard input: --input -")
        long = program.run("prepare", "--input", text, "--out", self.folder / ("x" * 300))
        self.assertEqual(long.returncode, 3, long.stderr)
        self.assertIn("File name too long", long.stderr)
        self.assert_error(self.prepare(text, options=("--val-fraction", "abc")), 2,
                          '[usage] --val-fraction: expected a number from 0 to 1, got "abc"')
        unigram = self.write("unigram.json", '{"version": "1.0", "model": {"type": "Unigram", "vocab": []}}')
        self.assert_error(self.prepare(text, options=("--tokenizer", unigram)), 2,
                          f'[tokenizer] {unigram}: model.type: expected "BPE", found "Unigram"',
                          "docs/how-to/data.md lists the tokenizers that are supported, and says how to train a model of another one")
        split = {"type": "Split", "pattern": {"Regex": "\\b\\w+"}, "behavior": "Isolated"}
        letters = {"model": {"type": "BPE", "vocab": {"a": 0, "s": 1}, "merges": []}}
        pattern = self.write("pattern.json", json.dumps({**letters, "pre_tokenizer": split}))
        self.assert_error(self.prepare(text, options=("--tokenizer", pattern)), 2,
                          f'[tokenizer] {pattern}: pre_tokenizer: pattern "\\b\\w+": expected what has one meaning in all '
                          "syntaxes of regular expressions, found \\b", "docs/how-to/data.md lists the tokenizers that are supported, and says how to train a model of another one")
        endless = self.write("endless.json", json.dumps(letters))
        self.assert_error(self.prepare(text, options=("--tokenizer", endless, "--chat", "plain")), 2,
                          '[tokenizer] chat: template plain: expected a tokenizer with a token for "\\n", which ends a turn, '
                          "found none", "its vocabulary or its normalizer drops that text; other templates end a turn with an "
                                        "added token")
        self.assertIsNone(self.names())


class Program(program.CliTest):
    def test_help_and_version(self):
        version = program.run("--version")
        self.assertEqual(version.returncode, 0)
        self.assertRegex(version.stdout, r"^ltrain \d+\.\d+\.\d+ \(commit \S+\)\nbuilt with: cpu, .*MPI .*HDF5 ")
        general = program.run("--help")
        self.assertEqual((general.returncode, general.stderr), (0, ""))
        self.assertIn("  prepare ", general.stdout)
        prepare = program.run("prepare", "--help")
        self.assertEqual(prepare.returncode, 0)
        for option in ("--input FILE...", "--tokenizer byte|FILE.json = byte", "--out DIR", "--val-fraction = 0.1"):
            self.assertIn(option, prepare.stdout)
        self.assertEqual(program.run("--version", ranks=2).stdout, version.stdout)

    def test_unknown_commands_and_options(self):
        self.assert_error(program.run(), 2, "[usage] expected a command, got none", "`ltrain --help` lists them")
        self.assert_error(program.run("preprae"), 2, "[usage] unknown command preprae",
                          "did you mean prepare? `ltrain --help` lists them")
        self.assert_error(program.run("--verison"), 2, "[usage] unknown option --verison", "did you mean --version?")
        self.assert_error(program.run("preprae", ranks=2), 2, "[usage] unknown command preprae")

    def test_commands_without_ranks_run_whatever_a_launcher_left_behind(self):
        text = self.write("a.txt", "0123456789")
        commands = (("--version",), ("--help",), ("train", "--help"), ("train", "--print-config"), ("bench", "compare", "--help"),
                    ("bench", "step", "--print-config"), ("plan", "--ranks=8", "--train.seq=8"),
                    ("prepare", "--input", text, "--out", self.folder / "out", "--force"))
        expected = [program.run(*command) for command in commands]
        self.assertIn(" on 8 ranks\n", expected[-2].stdout)
        nonsense = {name: "x" for name in ("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_RANK", "WORLD_SIZE",
                                           "SLURM_CPUS_PER_TASK")}
        for left in ({"RANK": "1", "WORLD_SIZE": "2", "MASTER_ADDR": "m", "MASTER_PORT": "1"}, {"RANK": "1", "WORLD_SIZE": "2"},
                     slurm_step(1), nonsense):
            for command, done in list(zip(commands, expected))[len(left) % 2::2]:  # half of them each
                again = program.run(*command, environment=left)
                self.assertEqual((again.returncode, again.stdout, again.stderr), (0, done.stdout, done.stderr), (left, command))
            mistyped = program.run("preprae", environment=left)
            self.assert_error(mistyped, 2, "[usage] unknown command preprae")

    def test_each_rank_without_a_launcher_says_so(self):
        for command in (("train",), ("eval", "--checkpoint=x", "--data=x"), ("sample", "--checkpoint=x", "--prompt=x"), ("bench", "step")):
            for rank in (0, 1):
                done = program.run(*command, environment=slurm_step(rank))
                self.assert_error(done, 4, f"[comm] {'rank 1: ' if rank else ''}Slurm says rank {rank} of 2: expected a launcher that "
                                  "MPI knows, found none", "start them with mpirun -n N, srun --mpi=pmix or ltrain launch -n N, or set "
                                  "MASTER_ADDR and MASTER_PORT; srun -n 1, or unset SLURM_STEP_ID, for a run of one")


if __name__ == "__main__":
    program.main()
