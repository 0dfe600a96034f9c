// A suite of problems, and samples of answers to it. Programming problems are judged by running their tests, records by
// comparing texts.
//
// | shape     | fields                                             | an answer is right when |
// | HumanEval | task_id, prompt, entry_point, test                 | prompt and answer pass test, check(entry_point) |
// | MBPP      | task_id, text, test_list, optional test_setup_code | it passes test_setup_code and the tests |
// | records   | instruction, input, output, task_id, is_correct    | it is the output, to the last character |
//
// HumanEval: Chen et al. 2021, arXiv 2107.03374, github.com/openai/human-eval. MBPP: Austin et al. 2021, arXiv
// 2108.07732. Records are those of core/records/record_file.hpp; of wrong outputs nothing is asked, and of several right ones
// to a problem the first. A sample is {task_id, completion}, as human-eval writes them. Knows no LibTorch.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

namespace wmtp {

struct Problem {
  std::string task_id;                     ///< "HumanEval/0"; "mbpp/11" for a number; "line 7" for a record without one
  std::string prompt;                      ///< what a model is given
  std::string before;                      ///< of the program, in front of the answer
  std::string tests;                       ///< of the program (Submission in sandbox.hpp)
  std::optional<std::string> answer = {};  ///< the right one, of a record: then no program is run
  std::string entry_point = "";            ///< the function that the tests call, where the problem names it
};

struct Sample {
  size_t problem;  ///< index in the suite
  std::string completion;
};

struct Suite {
  bool runs_programs = true;
  std::vector<Problem> problems;  ///< in the file's order
  /// Where an answer ends: HumanEval's by its paper (section 2.2), MBPP's as it is usually scored, where what follows
  /// the function is another example; a record's at the end of the text.
  std::vector<std::string> stops;
};

/// `prompt_template`: of records (prompt_of in core/records/record_file.hpp). Error(data) with all mistakes by line and field:
/// a missing field, one of another type, a task_id that stands twice, a line of no shape, or of another shape than
/// those before it.
Suite read_suite(const std::filesystem::path& file, const std::string& prompt_template = "alpaca");

/// Error(data) with all mistakes, a task_id that is not in the suite (with the nearest) among them.
std::vector<Sample> read_samples(const std::filesystem::path& file, const std::vector<Problem>& problems);

}  // namespace wmtp
