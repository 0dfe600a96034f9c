#include "evaluate/judge_program.hpp"

#include <optional>
#include <thread>

#include "base/error.hpp"
#include "base/json_text.hpp"
#include "base/text.hpp"
#include "base/work_progress.hpp"
#include "process/python_program.hpp"
#include "process/socket_child.hpp"

namespace wmtp {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

constexpr size_t longest_verdict = size_t{1} << 20;
constexpr milliseconds end_limit(5000);  ///< from the end of its output to its own
constexpr milliseconds end_poll(5);

ChildRequest request_of(const JudgeProgram& program) {
  const auto [python, name] = users_python(program.python);
  if (python.empty())
    throw Error(ExitStatus::usage,
                "found no " + name + " to run " + program.file.string() + "; name one with --python");
  if (!std::filesystem::is_regular_file(program.file))
    throw Error(ExitStatus::usage,
                program.file.string() + ": no such file; wanted a Python program that judges answers");
  ChildRequest request;
  request.program = python;
  // -u: a verdict that waits in a buffer would look like silence
  request.arguments = {"-u", "-B", program.file.string(), program.suite.string()};
  return request;
}

class Judge {
 public:
  explicit Judge(const JudgeProgram& program) : program_(program), child_(request_of(program), false) {}

  Judged judge(const Problem& problem, const Sample& sample) {
    const auto start = Clock::now();
    const std::string answer = dumped(Json(sample.completion));
    child_.send("{\"answer\": " + answer + ", \"record\": " + problem.line + "}");  // the end is found by next_line()
    Judged judged = verdict(next_line());
    judged.seconds = std::chrono::duration<double>(Clock::now() - start).count();
    return judged;
  }

  /// After the last answer.
  void finish() {
    child_.end_input();
    const auto limit = milliseconds(program_.silence);
    if (child_.receive(int(limit.count()), longest_verdict)) {
      ++lines_;
      refuse("found more lines than answers, wanted one line for each");
    }
    const auto status = wait_status();
    if (status && *status == 0) return;
    throw Error(ExitStatus::data, program_.file.string() +
                                      (status ? " " + exit_text(*status, "after its last verdict")
                                              : ": it does not end after its last verdict") +
                                      "; wanted exit code 0 when its input ends");
  }

 private:
  [[noreturn]] void refuse(const std::string& why) const {
    throw Error(ExitStatus::data,
                program_.file.string() + ": line " + std::to_string(lines_) + " of its output: " + why);
  }

  std::string next_line() {
    const auto line = child_.receive(int(milliseconds(program_.silence).count()), longest_verdict);
    ++lines_;
    if (line) return *line;
    const auto status = wait_status();
    if (status)
      throw Error(ExitStatus::data, program_.file.string() + " " +
                                        exit_text(*status, "before its verdict on answer " + std::to_string(lines_)));
    refuse("found none for " + std::to_string(program_.silence.count()) +
           " s, or more than 1 MiB; wanted {\"passed\": true} or {\"passed\": false}");
  }

  /// Of the program, if it ends.
  std::optional<int> wait_status() {
    const auto until = Clock::now() + end_limit;
    while (Clock::now() < until) {
      if (const auto status = child_.process().wait_status()) return status;
      std::this_thread::sleep_for(end_poll);
    }
    return std::nullopt;
  }

  Judged verdict(const std::string& line) const {
    const Json found = Json::parse(line, nullptr, false);
    const bool is_verdict = found.is_object() && found.contains("passed") && found["passed"].is_boolean();
    if (!is_verdict)
      refuse("found " + printable(truncate_text(line, 60)) + ", wanted {\"passed\": true} or {\"passed\": false}");
    Judged judged{found["passed"] ? Verdict::passed : Verdict::failed, "", 0};
    for (const auto& [key, value] : found.items()) {
      if (key == "passed") continue;
      if (key != "told" || !value.is_string())
        refuse("found " + printable(key) + ": " + truncate_text(value.dump(-1, ' ', true), 60) +
               ", wanted only \"passed\" and \"told\", a string");
      judged.message = value;
    }
    return judged;
  }

  const JudgeProgram& program_;
  SocketChild child_;
  int64_t lines_ = 0;
};

}  // namespace

std::vector<Judged> judge_with_program(const JudgeProgram& program, const std::vector<Problem>& suite,
                                       const std::vector<Sample>& samples) {
  Judge judge(program);
  std::vector<Judged> judged;
  WorkProgress progress("judging samples", int64_t(samples.size()));
  for (const Sample& sample : samples) {
    judged.push_back(judge.judge(suite[sample.problem], sample));
    progress.advance(1);
  }
  judge.finish();
  return judged;
}

}  // namespace wmtp
