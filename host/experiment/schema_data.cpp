// The schema's tables of training data, tokenizer and validation: [data], [data.tokenizer], [data.arithmetic],
// [data.difficulty], [validation].
#include "experiment/prompt_templates.hpp"
#include "experiment/schema_key.hpp"

namespace wmtp {
namespace {

using enum DataKind;

SchemaTable data_table() {
  return {
      "data",
      "[Formats and patterns of files](data.md)",
      {key("kind", AT(data.kind),
           "`text`: text files, or JSON lines with a field `text`; `records`: JSONL; `tokens`: files of token ids; "
           "`random`: random token ids")
           .required(),
       key("files", AT(data.files), "patterns of the training files")
           .not_empty()
           .only_for({text, records, tokens})
           .is_path(PathKind::paths)
           .defaults_to("required without `[data.arithmetic]` or `file`")
           .unset_when_empty(),
       key("exclude", AT(data.exclude), "patterns of files to exclude")
           .only_for({text, records, tokens})
           .is_path(PathKind::paths),
       key("select", AT(data.select), "all records, or only those with `is_correct` = true")
           .only_for({records}),
       key("format", AT(data.format),
           "fields of a record: `instructions`, `messages`, `conversations` (ShareGPT), `completions` or "
           "`preferences`")
           .one_of({"instructions", "messages", "conversations", "completions", "preferences"})
           .only_for({records})
           .defaults_to("recognised by each file's first records")
           .unset_when_empty(),
       key("template", AT(data.prompt_template),
           "how the texts of a record form a prompt: `alpaca`: as in Stanford Alpaca; `plain`: each followed by a "
           "newline; `none`: as they are, an input on a new line; `chat`: by the chat template next to "
           "`tokenizer.json`; `chatml`: in ChatML, for tokenizers without one")
           .one_of(prompt_templates())
           .only_for({records})
           .defaults_to("`alpaca` for `instructions`, `none` for string prompts, `chat` for messages")
           .unset_when_empty(),
       key("too_long", AT(data.too_long),
           "records longer than `train.sequence_length`: exclude them, or truncate their end; those whose prompt alone "
           "is as long are always excluded")
           .only_for({records}),
       key("max_pairs_per_problem", AT(data.max_pairs_per_problem),
           "for pipelines that train on pairs: maximum number of pairs from one problem; 0: unlimited")
           .range(0, 1e9)
           .only_for({records}),
       key("length_bins", AT(data.length_bins),
           "ascending upper bounds of answer lengths in tokens: both answers of a pair are in the same bin")
           .range(1, 1 << 20)
           .only_for({records}),
       key("hold_out", AT(data.hold_out),
           "patterns of JSONL files whose problems are excluded from training, in addition to those of "
           "`validation.files`; a stage inherits them from the experiment that names it")
           .only_for({records})
           .is_path(PathKind::paths),
       key("hold_out_problems", AT(data.hold_out_problems),
           "whether 1 problem in 20 is excluded, as by a `[validation]` without `files`; inherited as `hold_out`")
           .only_for({records}),
       key("encoding", AT(data.encoding),
           "`utf-8`: refuses what is no text; `bytes`: each file is one text of its bytes, also JSON lines and "
           "packed files")
           .only_for({text}),
       key("separator", AT(data.separator),
           "text between the documents of a file, such as `\"\\n---\\n\"`; blank ones are skipped")
           .not_empty()
           .only_for({text})
           .defaults_to("each file or JSON line is one document")
           .unset_when_empty(),
       key("packing", AT(data.packing),
           "whether the documents or records of a sequence are separate: no token attends to, or predicts, a token "
           "of another. `records` fill sequences instead of being padded; not for pipelines that need pairs or "
           "values")
           .only_for({text, records}),
       key("hold_out_share", AT(data.hold_out_share),
           "share of each file's documents or ids, at its end, that is excluded, as by `validation.share`; inherited "
           "as `hold_out`")
           .range(0, 0.5)
           .above(0)
           .only_for({text, tokens})
           .defaults_to("none")
           .unset_when_empty(),
       key("file", AT(data.file),
           "little-endian token ids: raw, with a header of llm.c, `.npy`, or Megatron's `.bin` beside its `.idx`")
           .not_empty()
           .only_for({tokens})
           .is_path(PathKind::path)
           .defaults_to("required without `files`")
           .unset_when_empty(),
       key("dtype", AT(data.dtype), "integer type of raw token ids; only checked if a header names it")
           .one_of({"uint16", "uint32"})
           .only_for({tokens})
           .defaults_to("that of the header; without one `\"uint16\"`, but required above 65,536 ids")
           .unset_when_empty(),
       key("order", AT(data.order), "order of windows or records")}};
}

SchemaTable tokenizer_table() {
  return optional_table(
      {"data.tokenizer",
       "Experiments with the same table (and for `bpe` the same training text) share one tokenizer. With `tokens` it "
       "is optional, of kind `file`, and turns ids into text: samples, prompts, evaluation.",
       {key("kind", AT(data.tokenizer.kind),
            "`byte`: 256 bytes, begin and end of text; `bpe`: a SentencePiece BPE trained on `files`; `file`: an "
            "existing tokenizer"),
        key("file", AT(data.tokenizer.file),
            "`tokenizer.json` of a BPE (Llama, Qwen2, GPT-2) beside a `tokenizer_config.json` that names the "
            "`eos_token`, or a SentencePiece `tokenizer.model`")
            .not_empty()
            .is_path(PathKind::path)
            .defaults_to("required for `file`")
            .unset_when_empty(),
        key("files", AT(data.tokenizer.files), "for `bpe`: patterns of text files")
            .not_empty()
            .is_path(PathKind::paths)
            .defaults_to("`data.files`; the texts of `records`")
            .unset_when_empty(),
        key("vocab_size", AT(data.tokenizer.vocab_size), "number of tokens")
            .range(byte_vocab_size, 1 << 24)
            .defaults_to("258 for `byte`; required for `bpe`; refused for `file`: see `model.vocab_size`")
            .unset_when_empty()}},
      AT(data.tokenizer.given), {text, records, tokens});
}

SchemaTable arithmetic_table() {
  return optional_table(
      {"data.arithmetic",
       "Generates the records, instead of `files`: expressions over F_7[X]/(X^5) with correct and incorrect answers, "
       "as in arXiv 2404.19737.",
       {key("problems", AT(data.arithmetic.problems), "distinct expressions").range(1, 1e8),
        key("seed", AT(data.arithmetic.seed), "seed of the problems, independent of the run's").at_least(0),
        key("operations", AT(data.arithmetic.operations), "operations of the expressions")
            .one_of({"negate", "add", "multiply", "compose"})
            .not_empty(),
        key("min_operations", AT(data.arithmetic.min_operations), "minimum number of operations").range(1, 100),
        key("max_operations", AT(data.arithmetic.max_operations), "maximum number of operations").range(1, 100),
        key("answers_right", AT(data.arithmetic.answers_right), "correct answers to each problem").range(0, 1),
        key("answers_wrong", AT(data.arithmetic.answers_wrong), "incorrect answers to each problem").range(0, 10),
        key("steps", AT(data.arithmetic.steps), "whether an answer shows the result of each operation")}},
      AT(data.arithmetic.given), {records});
}

SchemaTable difficulty_table() {
  return optional_table(
      {"data.difficulty",
       "Shares of the records drawn from each bin of `metadata.difficulty`, which may change linearly over the run.",
       {key("bins", AT(data.difficulty.bins), "closed ranges such as `\"6-10\"`; records outside them are skipped")
            .required()
            .not_empty(),
        key("weights", AT(data.difficulty.weights),
            "initial share of each bin, divided by their sum; a bin of weight 0 is validated, but not trained on")
            .required()
            .not_empty()
            .range(0, 1e9),
        key("end_weights", AT(data.difficulty.end_weights), "final share of each bin")
            .not_empty()
            .range(0, 1e9)
            .defaults_to("`weights`")
            .unset_when_empty()}},
      AT(data.difficulty.given), {records});
}

}  // namespace

std::vector<SchemaTable> data_tables() {
  return {data_table(), tokenizer_table(), arithmetic_table(), difficulty_table()};
}

SchemaTable validation_table() {
  return optional_table(
      {"validation",
       "Computes the unweighted loss on data excluded from training. Without this table there is no validation.",
       {key("every_steps", AT(validation.every_steps),
            "steps between validations; 0: only before the first step and at the end")
            .range(0, 1e12),
        key("every_epochs", AT(validation.every_epochs), "as `checkpoint.every_epochs`, for validations")
            .range(0, 1e6)
            .defaults_to("`0.0`")
            .unset_when_empty(),
        key("batches", AT(validation.batches),
            "micro-batches of `train.batch_size` sequences in a validation, the same sequences on any number of "
            "ranks")
            .range(1, 1e9),
        key("files", AT(validation.files),
            "patterns of the validation files; they, with `records` all their problems, are excluded from training, "
            "also in stages")
            .not_empty()
            .is_path(PathKind::paths)
            .defaults_to("1 file of `data.files` in 20; with `records`, 1 problem in 20")
            .unset_when_empty(),
        key("share", AT(validation.share),
            "instead of `files`: share of each file's documents (`data.separator`), at its end, for validation, "
            "excluded likewise; a file of one document is cut at the end of a line, a file of `tokens` between two ids")
            .range(0, 0.5)
            .above(0)
            .only_for({text, tokens})
            .defaults_to("none")
            .unset_when_empty()}},
      AT(validation.given), {text, records, tokens});
}

}  // namespace wmtp
