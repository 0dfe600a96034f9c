// EventFile: what TensorBoard reads. A sequence of records, each its length (u64), the masked CRC-32C of the length,
// the bytes of an Event (a protocol buffer), and their masked CRC-32C; the first says "brain.Event:2".
//
// Numbers of scalars are fp32, as all of TensorBoard's. A reader may follow the file while it grows: flush() writes
// whole records only, though a crash or a full disk may leave the last one torn, which readers take as not there yet.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <string_view>

#include "core/experiment/experiment.hpp"
#include "io/durable_file.hpp"

namespace wmtp {

/// CRC-32C as it stands in a record, so that a sum over bytes which hold sums of their own is not weak.
uint32_t masked_crc32c(std::string_view bytes);

/// "events.out.tfevents.<seconds>.wmtp-host.<which>": readers look for the middle of it.
std::string event_file_name(int64_t time_ns, const std::string& which);

/// A text as it stands, for text().
std::string as_markdown(const std::string& toml);

/// "memory/rank_0/resident"
std::string memory_tag(int64_t rank, const std::string& category);

class EventFile {
 public:
  /// A new file; Error(storage) here and below.
  EventFile(const std::filesystem::path& path, int64_t time_ns);

  void scalar(int64_t time_ns, int64_t step, const std::string& tag, double value);
  /// Shown as Markdown.
  void text(int64_t time_ns, const std::string& tag, const std::string& text);
  /// The columns of the run in the table of hyperparameters.
  void options(int64_t time_ns, const std::map<std::string, OptionValue>& values);
  /// Whether the run came to its end well, for the same table.
  void ended(int64_t time_ns, bool well);

  /// Gives what is held to the file system.
  void flush() { file_.flush(); }
  /// The same, on the disk; nothing follows it.
  void finish() { file_.finish(); }

 private:
  void record(std::string_view event);
  void value(int64_t time_ns, int64_t step, std::string_view summary_value);

  DurableFile file_;
};

}  // namespace wmtp
