#include "export/tensorboard.hpp"

#include "base/text.hpp"
#include "export/event_file.hpp"
#include "export/run_export_reader.hpp"
#include "io/durable_file.hpp"
#include "log/run_folders.hpp"

namespace wmtp {
namespace {

std::map<std::string, Value> typed(const std::vector<LoggedOption>& options) {
  std::map<std::string, Value> values;
  for (const auto& [key, text, number] : options) {
    if (!number) {
      values[key] = text;
    } else if (text == "true" || text == "false") {
      values[key] = text == "true";
    } else {
      values[key] = *number;
    }
  }
  return values;
}

void write_run(const RunExportReader& rows, int64_t run, const std::filesystem::path& folder) {
  make_folder_durably(folder);
  EventFile file(folder / event_file_name(rows.started_ns(), std::to_string(run)), rows.started_ns());
  file.options(rows.started_ns(), typed(rows.options()));
  file.text(rows.started_ns(), "experiment", as_markdown(rows.resolved_toml()));
  for (const std::string& name : rows.metric_names()) {
    rows.each_point(name, [&](const LoggedPoint& p) { file.scalar(p.time_ns, p.step, name, p.value); });
  }
  rows.each_memory([&](const LoggedMemory& memory) {
    file.scalar(memory.time_ns, memory.step, memory_tag(memory.rank, memory.category), double(memory.bytes));
  });
  if (rows.ended_ns() > 0) file.ended(rows.ended_ns(), rows.text("status") == "finished");
  file.finish();
}

class TensorboardSink : public RecordSink {
 public:
  TensorboardSink(std::filesystem::path folder, int64_t run_id, const RunStart& start)
      : folder_(std::move(folder)), run_id_(run_id), options_(start.params), toml_(start.resolved_toml) {}

  void receive(std::deque<LogRecord>::const_iterator begin, std::deque<LogRecord>::const_iterator end) override {
    if (begin == end) return;
    if (!file_) open();
    for (auto record = begin; record != end; ++record) {
      if (const auto* metrics = std::get_if<MetricsRecord>(&*record)) write(*metrics);
      if (const auto* memory = std::get_if<MemoryRecords>(&*record)) write(*memory);
    }
    file_->flush();
  }

 private:
  void open() {
    make_folder_durably(folder_);
    const int64_t now = now_ns();
    file_ = std::make_unique<EventFile>(folder_ / event_file_name(now, std::to_string(run_id_)), now);
    file_->options(now, options_);
    file_->text(now, "experiment", as_markdown(toml_));
  }

  void write(const MetricsRecord& metrics) {
    for (const auto& [name, value] : metrics.values) file_->scalar(metrics.time_ns, metrics.step, name, value);
  }

  void write(const MemoryRecords& memory) {
    for (const MemoryRecord& one : memory.values) {
      if (one.phase != "peak" || (one.category != "allocated" && one.category != "resident")) continue;
      file_->scalar(now_ns(), one.step, memory_tag(one.rank, one.category), double(one.bytes));
    }
  }

  std::filesystem::path folder_;
  int64_t run_id_;
  std::map<std::string, Value> options_;
  std::string toml_;
  std::unique_ptr<EventFile> file_;
};

}  // namespace

void export_tensorboard(const LogReader& log, const std::vector<int64_t>& runs, const std::filesystem::path& folder) {
  OutputFolder product(folder);
  for (const int64_t run : runs) {
    const RunExportReader rows(log, run);
    write_run(rows, run, product.path() / run_folder_path({}, run, rows.text("name")).filename());
  }
  product.publish();
}

std::unique_ptr<RecordSink> tensorboard_sink(const std::filesystem::path& folder, int64_t run_id,
                                             const RunStart& start) {
  return std::make_unique<TensorboardSink>(folder / run_folder_path({}, run_id, start.name).filename(), run_id, start);
}

}  // namespace wmtp
