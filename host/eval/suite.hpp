// A suite of programming problems whose answers are judged by running tests, and samples of answers to it.
//
// | shape     | fields                                              | the program that is run | | HumanEval | task_id,
// prompt, entry_point, test                  | prompt, answer, test, check(entry_point)          | | MBPP      |
// task_id, text, test_list, optional test_setup_code  | answer, test_setup_code, one test of the list after another |
//
// HumanEval: Chen et al. 2021, arXiv 2107.03374, github.com/openai/human-eval. MBPP: Austin et al. 2021, arXiv
// 2108.07732. A sample is {task_id, completion}, as human-eval writes them. Knows no LibTorch.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace wmtp {

struct Problem {
  std::string task_id;  ///< "HumanEval/0", or "mbpp/11" for a number
  std::string prompt;   ///< what a model is given
  std::string before;   ///< of the program, in front of the answer
  std::string after;    ///< behind it: the tests
};

struct Sample {
  size_t problem;  ///< index in the suite
  std::string completion;
};

struct Suite {
  std::vector<Problem> problems;  ///< in the file's order
  /// Where an answer ends: HumanEval's by its paper (section 2.2), MBPP's as it is usually scored, where what follows
  /// the function is another example.
  std::vector<std::string> stops;
};

/// Error(data) with all mistakes by line and field: a missing field, one of another type, a task_id that stands twice,
/// a line of neither shape, or of another shape than those before it.
Suite read_suite(const std::filesystem::path& file);

/// Error(data) with all mistakes, a task_id that is not in the suite (with the nearest) among them.
std::vector<Sample> read_samples(const std::filesystem::path& file, const std::vector<Problem>& problems);

/// Python.
std::string program_of(const Problem& problem, const std::string& completion);

}  // namespace wmtp
