// EventFile: TensorBoard's file format. A sequence of records: the length (u64), the masked CRC-32C of the length, the
// bytes of an Event (a protocol buffer), and their masked CRC-32C; the first Event has the version "brain.Event:2".
//
// Scalars are fp32, as always in TensorBoard. A reader may follow the growing file: flush() writes complete records
// only. A crash or a full disk may truncate the last one; readers ignore it as incomplete.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <string_view>

#include "experiment/experiment.hpp"
#include "io/durable_file.hpp"

namespace wmtp {

/// The masked CRC-32C of a record: a plain CRC is weak for data that contains CRCs.
uint32_t masked_crc32c(std::string_view bytes);

/// "events.out.tfevents.<seconds>.wmtp-host.<suffix>"; readers look for "tfevents".
std::string event_file_name(int64_t time_ns, const std::string& suffix);

/// A Markdown code block, for text().
std::string as_markdown(const std::string& toml);

/// "memory/rank_0/resident"
std::string memory_tag(int64_t rank, const std::string& category);

class EventFile {
 public:
  /// Creates a new file. Error(storage) here and below.
  EventFile(const std::filesystem::path& path, int64_t time_ns);

  void scalar(int64_t time_ns, int64_t step, const std::string& tag, double value);
  /// Shown as Markdown.
  void text(int64_t time_ns, const std::string& tag, const std::string& text);
  /// The run's columns in the hyperparameter table.
  void options(int64_t time_ns, const std::map<std::string, Value>& values);
  /// The run's status in the same table.
  void ended(int64_t time_ns, bool success);

  void flush() { file_.flush(); }
  /// Like flush(), but also syncs to disk. Must be the last call.
  void finish() { file_.finish(); }

 private:
  void record(std::string_view event);
  void value(int64_t time_ns, int64_t step, std::string_view summary_value);

  DurableFile file_;
};

}  // namespace wmtp
