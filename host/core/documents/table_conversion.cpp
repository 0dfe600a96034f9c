#include "core/documents/table_conversion.hpp"

#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <nlohmann/json.hpp>

#include "base/embedded.hpp"
#include "base/error.hpp"
#include "base/files.hpp"
#include "base/text.hpp"
#include "base/work_progress.hpp"
#include "io/durable_file.hpp"
#include "process/child_process.hpp"

namespace wmtp {
namespace {

namespace fs = std::filesystem;

constexpr size_t longest_message = 16 << 10;

std::string arguments_of(const TableConversion& conversion) {
  std::vector<std::string> inputs;
  for (const fs::path& input : conversion.inputs) inputs.push_back(input.string());
  return nlohmann::json{{"inputs", inputs}, {"columns", conversion.columns}, {"split", conversion.split}}.dump();
}

/// What the program writes until it ends; of a longer text the beginning.
std::string message_from(int pipe) {
  std::string message;
  std::array<char, 4096> piece;
  for (ssize_t count; (count = retry_interrupted([&] { return read(pipe, piece.data(), piece.size()); })) > 0;)
    message.append(piece.data(), std::min(size_t(count), longest_message - message.size()));
  return message;
}

}  // namespace

void convert_tables(const TableConversion& conversion) {
  for (const fs::path& input : conversion.inputs)
    if (!fs::is_directory(input)) check_is_file(input);
  const fs::path python = find_program("python3");
  if (python.empty())
    throw Error(ExitStatus::usage, "found no python3 in PATH, which converts tables; install it, and pyarrow");
  FileDraft draft(conversion.jsonl);
  const Descriptor jsonl(open(draft.path().c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666));
  if (jsonl.get() < 0) throw storage_error("create", draft.path(), errno);
  const Descriptor none(open("/dev/null", O_RDONLY | O_CLOEXEC));
  Pipe messages = Pipe::open();
  ChildRequest request;
  request.program = python;
  request.arguments = {"-B", "-c", embedded_programs().at("tables.py"), arguments_of(conversion)};
  request.descriptors = {none.get(), jsonl.get(), messages.write_end.get()};
  WorkProgress progress("converting " + counted(int64_t(conversion.inputs.size()), "input"));
  ChildProcess child(request);
  messages.write_end.reset();
  const std::string message = message_from(messages.read_end.get());
  const int status = child.wait();
  if (status != 0) {
    const bool is_missing = WIFEXITED(status) && WEXITSTATUS(status) == int(ExitStatus::usage);
    throw Error(is_missing ? ExitStatus::usage : ExitStatus::data,
                message.empty() ? "the conversion was ended: " + signal_name(WTERMSIG(status)) : last_line(message));
  }
  if (fsync(jsonl.get()) != 0) throw storage_error("write", draft.path(), errno);
  draft.replace();
}

}  // namespace wmtp
