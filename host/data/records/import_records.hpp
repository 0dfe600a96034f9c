// Imports published data sets as records (JSONL of instruction, input, output, task_id, is_correct, metadata).
//
// | source       | fields of a line                                             | instruction -> output        |
// | ---          | ---                                                          | ---                          |
// | humaneval    | task_id, prompt, canonical_solution                          | prompt -> solution           |
// | mbpp         | task_id, text, code, test_list                               | text + tests -> code         |
// | gsm8k        | question, answer                                             | question -> answer           |
// | codecontests | name, description, source, difficulty, [incorrect_]solutions | description -> each solution |
//
// HumanEval: github.com/openai/human-eval. MBPP: google-research/mbpp; its tests name the function, so they are part of
// the question (Austin et al., arXiv 2108.07732). GSM8K: openai/grade-school-math; calculator marks (<<48/2=24>>) are
// kept as published, because the model has to write them, and the last line is "#### 24". CodeContests:
// google-deepmind/code_contests, contest_problem.proto; both its lists of {language, solution} and Hugging Face's pair
// of lists {language: [...], solution: [...]}; one record per solution in the selected language, incorrect_solutions
// with is_correct false; difficulty as published (1..29), omitted if it is 0 (unknown).
//
// task_id: "HumanEval/0", "mbpp/11", "gsm8k/NAME/LINE" (with the file's name, so that two files of one folder can be
// combined), "codecontests/SOURCE/NAME" (different sources use the same names).
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "base/json.hpp"

namespace wmtp {

/// "humaneval", "mbpp", "gsm8k", "codecontests"
const std::vector<std::string>& import_sources();
/// The source with all required fields of this line of a file; "" if there is none.
std::string detect_import_source(const Json& line);
/// Languages of codecontests: "python2", "cpp", "python3", "java".
const std::vector<std::string>& import_languages();

struct Imported {
  int64_t problems = 0;
  int64_t right = 0, wrong = 0;  ///< records
};

/// Reads `raw` line by line and writes `jsonl` atomically, replacing an existing file. `from` is one of
/// import_sources(), `language` one of import_languages(). Error(data) with all mistakes (at most 20) by line and
/// field, or if there is no record; Error(storage).
Imported import_records(const std::string& from, const std::string& language, const std::filesystem::path& raw,
                        const std::filesystem::path& jsonl);

}  // namespace wmtp
