// Judges answers by a program of the user's own: where many answers are right, such as all paths in a graph.
//
// It is Python, and runs as the user runs it: `python3 PROGRAM SUITE`. It is trusted: what it does is not confined, as
// are programs that are answers (sandbox.hpp). For each answer it reads a line, and then writes one:
//
//   {"answer": "031217", "record": {"task_id": "degree 1/0317", "prompt": "0317", "completion": "032217"}}
//   {"passed": false, "told": "no edge from 12 to 17"}
//
// `record` is the line of the suite, with all of its fields; `told`, which may be missing, is logged with the answer.
#pragma once

#include <chrono>
#include <filesystem>
#include <string>
#include <vector>

#include "evaluate/sandbox.hpp"
#include "evaluate/suite.hpp"

namespace wmtp {

struct JudgeProgram {
  std::filesystem::path file;
  std::filesystem::path suite;       ///< its argument: it may read files beside it
  std::string python;                ///< as for users_python()
  std::chrono::seconds silence{60};  ///< longest wait for a verdict
};

/// Results in the order of the samples. Error(usage) if there is no such program, or no Python. Error(data) if it
/// writes anything but a verdict for each answer, ends early or with another exit code than 0, or is silent.
std::vector<Judged> judge_with_program(const JudgeProgram& program, const std::vector<Problem>& suite,
                                       const std::vector<Sample>& samples);

}  // namespace wmtp
