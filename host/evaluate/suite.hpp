// A suite of problems and samples of answers. Programming problems are judged by running their tests, others by
// comparing texts, or all by a program of the user's (judge_program.hpp).
//
// | format    | fields                                             | a right answer |
// | HumanEval | task_id, prompt, entry_point, test                 | after prompt passes test, check(entry_point) |
// | MBPP      | task_id, text, test_list, optional test_setup_code | passes test_setup_code and the tests |
// | sanitized | task_id, prompt, test_list, test_imports           | passes test_imports and the tests    |
// | messages  | messages, tools, answer or a last message of the assistant | equals that answer exactly |
// | messages with tests | messages, tools, the tests of HumanEval or MBPP  | the first code block in it passes them |
// | questions | question, answer                                   | equals the answer exactly |
// | records   | instruction, input, output, task_id, is_correct    | equals the output exactly |
// | completions | prompt, completion, task_id, is_correct          | equals the completion exactly |
//
// Where it is not a program, task_id is optional.
// HumanEval: Chen et al. 2021, arXiv 2107.03374, github.com/openai/human-eval. MBPP: Austin et al. 2021, arXiv
// 2108.07732. Records are those of data/records/record_file.hpp; wrong outputs are ignored, and of several right ones
// to a problem the first counts. A sample is {task_id, completion}, as human-eval writes it, or {task_id, solution}, a
// whole program, as EvalPlus does. Files may be packed with gzip or zstd.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "data/records/prompt.hpp"

namespace wmtp {

struct Problem {
  std::string task_id;                     ///< "HumanEval/0"; "mbpp/11" for a number; "line 7" without one
  Prompt prompt;                           ///< what the model answers
  std::string before;                      ///< program text before the answer
  std::string tests;                       ///< Submission::tests in sandbox.hpp
  std::optional<std::string> answer = {};  ///< the expected answer; then no program is run
  std::string entry_point = "";            ///< the function that the tests call, if the problem names it
  std::string line = "{}";                 ///< of the suite: a JSON object
};

struct Sample {
  size_t problem;  ///< index in the suite
  std::string completion;
  bool is_whole = false;  ///< a program that does not follow Problem::before
};

struct Suite {
  bool runs_programs = true;
  bool has_template = false;      ///< a template makes the prompts; those of HumanEval, MBPP and completions are whole
  std::vector<Problem> problems;  ///< in the file's order
  /// Texts that end an answer: HumanEval: from its paper (section 2.2); MBPP: as commonly used; none for records.
  std::vector<std::string> stops;
};

/// Error(data) with all mistakes by line and field: a missing field, a wrong type, a duplicate task_id, a line of
/// unknown format or of a different one than earlier lines.
Suite read_suite(const std::filesystem::path& file);

/// Error(data) with all mistakes, including a task_id that is not in the suite (with the nearest one).
std::vector<Sample> read_samples(const std::filesystem::path& file, const std::vector<Problem>& problems);

}  // namespace wmtp
