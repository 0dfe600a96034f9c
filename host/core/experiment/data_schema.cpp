// See data_schema.hpp.
#include "core/experiment/data_schema.hpp"

#include "core/experiment/schema_key.hpp"

namespace wmtp {

SchemaTable data_table() {
  return {"data",
          "What is trained on. Patterns: `*` and `?` within a name, `**` over folders. A record is a line of JSON: "
          "`instruction`, `input`, `output`, `task_id`, `is_correct` and `metadata.difficulty`.",
          {key("kind", AT(data.kind), "text files, files of records, a file of token ids, or random ids")
               .required()
               .one_of({"text", "records", "tokens", "random"}),
           key("files", AT(data.files), "patterns of text files or JSONL files")
               .not_empty()
               .only_for({"text", "records"})
               .is_path(Key::Names::paths)
               .defaults_to("required for `text`, and for `records` without `[data.arithmetic]`")
               .unset_when_empty(),
           key("exclude", AT(data.exclude), "patterns of files that are left out")
               .only_for({"text", "records"})
               .is_path(Key::Names::paths),
           key("select", AT(data.select), "which records: all of them, or those whose `is_correct` is true")
               .one_of({"all", "correct"})
               .only_for({"records"}),
           key("template", AT(data.prompt_template),
               "how `instruction` and `input` make a prompt: Alpaca's two texts, or joined by newlines")
               .one_of({"alpaca", "plain"})
               .only_for({"records"}),
           key("max_pairs_per_problem", AT(data.max_pairs_per_problem),
               "pairs of a right and a wrong answer drawn from one problem, for pipelines that read pairs; 0: no cap")
               .range(0, 1e9)
               .only_for({"records"}),
           key("length_bins", AT(data.length_bins),
               "upper bounds in tokens, rising: the answers of a pair lie in the same bin, since length alone predicts "
               "the label; longer answers share one more bin")
               .range(1, 1 << 20)
               .only_for({"records"}),
           key("hold_out", AT(data.hold_out),
               "patterns of JSONL files whose problems are not trained on, like those of `validation.files`; a stage "
               "gets those of the experiment that names it")
               .only_for({"records"})
               .is_path(Key::Names::paths),
           key("hold_out_problems", AT(data.hold_out_problems),
               "whether one problem in twenty is not trained on, as with `[validation]` without files; a stage gets it "
               "from the experiment that names it")
               .only_for({"records"}),
           key("separator", AT(data.separator),
               "text between the documents of a file, such as `\"\\n---\\n\"`; each document is followed by the "
               "tokenizer's end of text, and blank ones are left out")
               .not_empty()
               .only_for({"text"})
               .defaults_to("a file is one document")
               .unset_when_empty(),
           key("hold_out_share", AT(data.hold_out_share),
               "last share of each file's documents that is not trained on, as with `validation.share`; a stage gets "
               "it from the experiment that names it")
               .range(0, 0.5)
               .above(0)
               .only_for({"text"})
               .defaults_to("none")
               .unset_when_empty(),
           key("file", AT(data.file), "raw little-endian ids")
               .not_empty()
               .only_for({"tokens"})
               .is_path(Key::Names::path)
               .defaults_to("required for `tokens`"),
           key("dtype", AT(data.dtype), "of the ids").one_of({"uint16", "uint32"}).only_for({"tokens"}),
           key("order", AT(data.order), "in which windows or records are drawn").one_of({"shuffled", "sequential"})}};
}

SchemaTable tokenizer_table() {
  SchemaTable table{
      "data.tokenizer",
      "Text to ids. Two experiments with the same table share one tokenizer.",
      {key("kind", AT(data.tokenizer.kind),
           "256 bytes with begin and end, a SentencePiece BPE trained on text, or one that is there")
           .one_of({"byte", "bpe", "file"}),
       key("file", AT(data.tokenizer.file),
           "file: a `tokenizer.json` of a BPE (Llama, Qwen2, GPT-2), which a `tokenizer_config.json` with "
           "the `eos_token` lies beside, or a SentencePiece `tokenizer.model`")
           .not_empty()
           .is_path(Key::Names::path)
           .defaults_to("required for `file`")
           .unset_when_empty(),
       key("files", AT(data.tokenizer.files), "bpe: patterns of the text files that it is trained on")
           .not_empty()
           .is_path(Key::Names::paths)
           .defaults_to("`data.files`; of records their texts")
           .unset_when_empty(),
       key("vocab_size", AT(data.tokenizer.vocab_size), "number of tokens")
           .range(258, 1 << 24)
           .defaults_to("258 for `byte`; required for `bpe`; not for `file`, where `model.vocab_size` is required")
           .unset_when_empty()}};
  table.is_given = AT(data.tokenizer.given);
  table.give = [](Experiment& e) { e.data.tokenizer.given = true; };
  table.kinds = {"text", "records"};
  return table;
}

SchemaTable arithmetic_table() {
  SchemaTable table{
      "data.arithmetic",
      "Records made by the program: expressions over F_7[X]/(X^5) with right and wrong answers. In place of `files`.",
      {key("problems", AT(data.arithmetic.problems), "expressions, all different").range(1, 1e8),
       key("seed", AT(data.arithmetic.seed), "the problems follow from it, and not from the run's `seed`").at_least(0),
       key("operations", AT(data.arithmetic.operations), "what expressions are made of")
           .one_of({"negate", "add", "multiply", "compose"})
           .not_empty(),
       key("min_operations", AT(data.arithmetic.min_operations), "fewest operations of a problem").range(1, 100),
       key("max_operations", AT(data.arithmetic.max_operations), "most operations of a problem").range(1, 100),
       key("answers_right", AT(data.arithmetic.answers_right), "right answers to each problem").range(0, 1),
       key("answers_wrong", AT(data.arithmetic.answers_wrong), "wrong answers to each problem").range(0, 10),
       key("steps", AT(data.arithmetic.steps), "whether an answer shows each operation's result before its own")}};
  table.is_given = AT(data.arithmetic.given);
  table.give = [](Experiment& e) { e.data.arithmetic.given = true; };
  table.kinds = {"records"};
  return table;
}

SchemaTable difficulty_table() {
  SchemaTable table{
      "data.difficulty",
      "Draws records by `metadata.difficulty`, more of some bins than of others, and changes that over the run. "
      "Without "
      "this table every record is drawn alike.",
      {key("bins", AT(data.difficulty.bins), "closed ranges such as `\"6-10\"`; records in none are left out")
           .required()
           .not_empty(),
       key("weights", AT(data.difficulty.weights),
           "each bin's share at the start, divided by their sum; a bin of weight 0 is never trained on but validated")
           .required()
           .not_empty()
           .range(0, 1e9),
       key("end_weights", AT(data.difficulty.end_weights), "the shares at the end of the run; linear between")
           .not_empty()
           .range(0, 1e9)
           .defaults_to("`weights`")
           .unset_when_empty()}};
  table.is_given = AT(data.difficulty.given);
  table.give = [](Experiment& e) { e.data.difficulty.given = true; };
  table.kinds = {"records"};
  return table;
}

SchemaTable validation_table() {
  SchemaTable table{
      "validation",
      "The unweighted loss on text or problems that are not trained on. Without this table there is none.",
      {key("every_steps", AT(validation.every_steps), "0: only at step 0 and at the end").range(0, 1e12),
       key("batches", AT(validation.batches), "micro-batches over all ranks together").range(1, 1e9),
       key("files", AT(validation.files),
           "patterns of files held out of every training set, those of the stages too; of records with all their "
           "problems")
           .not_empty()
           .is_path(Key::Names::paths)
           .defaults_to("one file of `data.files` in twenty; of records one problem in twenty")
           .unset_when_empty(),
       key("share", AT(validation.share),
           "in place of `files`: the last share of each file's documents (`data.separator`) is held out, and not "
           "trained on by the stages either; a file that is one document is cut at a line end")
           .range(0, 0.5)
           .above(0)
           .only_for({"text"})
           .defaults_to("none")
           .unset_when_empty()}};
  table.is_given = AT(validation.given);
  table.give = [](Experiment& e) { e.validation.given = true; };
  table.kinds = {"text", "records"};
  return table;
}

}  // namespace wmtp
