// Field numbers as in TensorBoard's .proto files.
#include "export/event_file.hpp"

#include <variant>

#include "base/crc32c.hpp"
#include "export/protobuf.hpp"

namespace wmtp {
namespace {

// Event
constexpr uint32_t wall_time = 1, event_step = 2, file_version = 3, summary = 5;
// Summary and Summary.Value
constexpr uint32_t summary_value = 1, value_tag = 1, simple_value = 2, value_tensor = 8, value_metadata = 9;
// SummaryMetadata and its PluginData
constexpr uint32_t plugin_data = 1, plugin_name = 1, plugin_content = 2;
// TensorProto
constexpr uint32_t tensor_dtype = 1, tensor_shape = 2, string_value = 8;
constexpr int64_t dtype_float = 1, dtype_string = 7;
// HParamsPluginData, SessionStartInfo, SessionEndInfo; an entry of a map; google.protobuf.Value
constexpr uint32_t session_start = 3, session_end = 4, start_options = 1, start_time = 5, end_status = 1, end_time = 2;
constexpr int64_t status_success = 1, status_failure = 2;
constexpr uint32_t entry_key = 1, entry_value = 2, number_value = 2, text_value = 3, bool_value = 4;

double seconds(int64_t time_ns) { return double(time_ns) / 1e9; }

ProtoMessage metadata(const char* plugin, const ProtoMessage& content) {
  ProtoMessage data;
  data.bytes(plugin_name, plugin).message(plugin_content, content);
  return ProtoMessage().message(plugin_data, data);
}

struct OptionMessage {
  ProtoMessage operator()(bool value) const { return ProtoMessage().integer(bool_value, value); }
  ProtoMessage operator()(int64_t value) const { return ProtoMessage().fp64(number_value, double(value)); }
  ProtoMessage operator()(double value) const { return ProtoMessage().fp64(number_value, value); }
  ProtoMessage operator()(const std::string& value) const { return ProtoMessage().bytes(text_value, value); }
  ProtoMessage operator()(const std::vector<std::string>& value) const {
    std::string joined;
    for (const std::string& one : value) joined += (joined.empty() ? "" : ", ") + one;
    return ProtoMessage().bytes(text_value, joined);
  }
  ProtoMessage operator()(const std::vector<double>& value) const {
    return ProtoMessage().bytes(text_value, toml_text(value));
  }
  ProtoMessage operator()(const std::vector<Fields>& value) const {
    return ProtoMessage().bytes(text_value, toml_text(value));
  }
  ProtoMessage operator()(const Fields& value) const { return ProtoMessage().bytes(text_value, toml_text(value)); }
};

std::string hparams_value(const char* tag, const ProtoMessage& content) {
  ProtoMessage nothing;  // readers require a tensor and ignore it
  nothing.integer(tensor_dtype, dtype_float).message(tensor_shape, {});
  ProtoMessage value;
  value.bytes(value_tag, tag).message(value_tensor, nothing).message(value_metadata, metadata("hparams", content));
  return value.encoded();
}

}  // namespace

uint32_t masked_crc32c(std::string_view bytes) {
  const uint32_t sum = crc32c(bytes.data(), bytes.size());
  return (sum >> 15 | sum << 17) + 0xa282ead8u;
}

std::string event_file_name(int64_t time_ns, const std::string& suffix) {
  return "events.out.tfevents." + std::to_string(time_ns / 1'000'000'000) + ".wmtp-host." + suffix;
}

std::string as_markdown(const std::string& toml) { return "```toml\n" + toml + "\n```\n"; }

std::string memory_tag(int64_t rank, const std::string& category) {
  return "memory/rank_" + std::to_string(rank) + "/" + category;
}

EventFile::EventFile(const std::filesystem::path& path, int64_t time_ns) : file_(path) {
  record(ProtoMessage().fp64(wall_time, seconds(time_ns)).bytes(file_version, "brain.Event:2").encoded());
}

void EventFile::scalar(int64_t time_ns, int64_t step, const std::string& tag, double number) {
  value(time_ns, step, ProtoMessage().bytes(value_tag, tag).fp32(simple_value, float(number)).encoded());
}

void EventFile::text(int64_t time_ns, const std::string& tag, const std::string& text) {
  ProtoMessage tensor, message;
  tensor.integer(tensor_dtype, dtype_string).message(tensor_shape, {}).bytes(string_value, text);
  message.bytes(value_tag, tag).message(value_tensor, tensor).message(value_metadata, metadata("text", {}));
  value(time_ns, 0, message.encoded());
}

void EventFile::options(int64_t time_ns, const std::map<std::string, Value>& values) {
  ProtoMessage start;
  for (const auto& [name, option] : values) {
    ProtoMessage entry;
    entry.bytes(entry_key, name).message(entry_value, std::visit(OptionMessage{}, option));
    start.message(start_options, entry);
  }
  start.fp64(start_time, seconds(time_ns));
  value(time_ns, 0, hparams_value("_hparams_/session_start_info", ProtoMessage().message(session_start, start)));
}

void EventFile::ended(int64_t time_ns, bool success) {
  ProtoMessage end;
  end.integer(end_status, success ? status_success : status_failure).fp64(end_time, seconds(time_ns));
  value(time_ns, 0, hparams_value("_hparams_/session_end_info", ProtoMessage().message(session_end, end)));
}

void EventFile::value(int64_t time_ns, int64_t step, std::string_view one) {
  ProtoMessage values, event;
  values.bytes(summary_value, one);
  event.fp64(wall_time, seconds(time_ns)).integer(event_step, step).message(summary, values);
  record(event.encoded());
}

void EventFile::record(std::string_view event) {
  std::string record = little_endian(event.size(), 8);
  record += little_endian(masked_crc32c(record), 4);
  record += event;
  file_.write(record += little_endian(masked_crc32c(event), 4));
}

}  // namespace wmtp
