#include "data/text/table_conversion.hpp"

#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <string_view>

#include "base/error.hpp"
#include "base/files.hpp"
#include "base/json.hpp"
#include "base/log.hpp"
#include "base/system_limits.hpp"
#include "base/text.hpp"
#include "base/utf8.hpp"
#include "base/work_progress.hpp"
#include "io/durable_file.hpp"
#include "io/file_kind.hpp"
#include "io/shard_names.hpp"
#include "process/python_program.hpp"

namespace wmtp {
namespace {

namespace fs = std::filesystem;

constexpr size_t max_message_bytes = 16 << 10, max_names_bytes = 1 << 30;

/// The inputs are arguments of their own, because the bytes of a path need not be UTF-8.
std::vector<std::string> arguments_of(const TableConversion& conversion) {
  for (const std::string& column : conversion.columns) check_is_utf8(column, "--columns");
  check_is_utf8(conversion.split, "--split");
  std::vector<std::string> arguments{Json{{"columns", conversion.columns}, {"split", conversion.split}}.dump()};
  for (const fs::path& input : conversion.inputs) arguments.push_back(input.string());
  return arguments;
}

/// What the program writes until it closes the pipe; of a longer text the beginning.
std::string text_from(int pipe, size_t max_bytes) {
  std::string text;
  std::array<char, 4096> piece;
  for (ssize_t count; (count = retry_interrupted([&] { return read(pipe, piece.data(), piece.size()); })) > 0;)
    text.append(piece.data(), std::min(size_t(count), max_bytes - text.size()));
  return text;
}

/// Refuses what lacks shards, and returns warnings of other gaps. `names`: each ended by NUL.
std::vector<std::string> check_numbers(std::string_view names) {
  std::vector<fs::path> files;
  for (size_t end; (end = names.find('\0')) != names.npos; names.remove_prefix(end + 1))
    files.emplace_back(names.substr(0, end));
  const std::vector<fs::path> missing = missing_shards(files);
  if (!missing.empty())
    throw Error(ExitStatus::data,
                missing.front().string() + " is missing" +
                    (missing.size() > 1 ? ", and " + counted(int64_t(missing.size()) - 1, "more file") : "") +
                    "; download it, or convert single files one at a time");
  return gaps_in_numbers(files);
}

}  // namespace

void convert_tables(const TableConversion& conversion) {
  for (const fs::path& input : conversion.inputs)
    if (!fs::is_directory(input)) check_file_kind(input, FileUse::table);
  const PythonProgram program{"tables.py", "converts tables", "pyarrow"};
  ChildRequest request = program.request(arguments_of(conversion));
  FileDraft draft(conversion.jsonl);
  const FileDescriptor jsonl(open(draft.path().c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666));
  if (jsonl.get() < 0) throw storage_error("create", draft.path(), errno);
  const FileDescriptor none(open("/dev/null", O_RDONLY | O_CLOEXEC));
  Pipe messages = Pipe::open(), parts = Pipe::open();
  request.descriptors = {none.get(), jsonl.get(), messages.write_end.get(), parts.write_end.get()};
  WorkProgress progress("converting " + counted(int64_t(conversion.inputs.size()), "input"));
  ChildProcess child(request);
  messages.write_end.reset();
  parts.write_end.reset();
  const std::vector<std::string> gaps = check_numbers(text_from(parts.read_end.get(), max_names_bytes));
  const std::string message = text_from(messages.read_end.get(), max_message_bytes);
  const int status = child.wait();
  if (status != 0) {
    const bool is_missing = WIFEXITED(status) && WEXITSTATUS(status) == int(ExitStatus::usage);
    if (!is_missing && (!WIFEXITED(status) || WEXITSTATUS(status) != int(ExitStatus::data)))  // of Python or a library
      throw Error(limits_text_for_exit(status).empty() ? ExitStatus::data : ExitStatus::storage,
                  "the conversion " + exit_text(status) + (message.empty() ? "" : ": " + last_line(message)));
    throw Error(is_missing ? ExitStatus::usage : ExitStatus::data, last_line(message));
  }
  if (fsync(jsonl.get()) != 0) throw storage_error("write", draft.path(), errno);
  draft.replace();
  for (const std::string& gap : gaps) log_warning(gap);
}

}  // namespace wmtp
