#include "checkpoint/manifest.hpp"

#include <algorithm>
#include <limits>

#include "base/files.hpp"
#include "base/json.hpp"
#include "base/json_text.hpp"
#include "base/text.hpp"
#include "checkpoint/safetensors_folder.hpp"
#include "checkpoint/saved_state.hpp"
#include "checkpoint/verify.hpp"
#include "io/durable_file.hpp"
#include "io/input_file.hpp"

namespace wmtp {
namespace {

namespace fs = std::filesystem;

constexpr int64_t max_manifest = 256 << 20;
constexpr int64_t current_version = 1;
constexpr int64_t max_sum = std::numeric_limits<uint32_t>::max();

Slice read_slice(const Json& item, const std::string& where) {
  JsonFields fields(item, where);
  Slice slice;
  slice.tensor = fields.text("tensor");
  slice.shape = fields.integers("shape");
  slice.begin = fields.integer("begin");
  slice.end = fields.integer("end");
  slice.file = fields.text("file");
  slice.entry = fields.text("entry");
  slice.crc32c = uint32_t(fields.integer("crc32c", max_sum));
  if (fields.has("columns")) slice.columns = fields.integers("columns");
  fields.finish();
  return slice;
}

Manifest read_document(const Json& document, const std::string& where) {
  JsonFields fields(document, where + ": it");
  if (fields.text("format") != "wmtp-checkpoint") fields.refuse("has a different format than wmtp-checkpoint");
  fields.integer("version");
  Manifest manifest;
  manifest.step = fields.integer("step");
  manifest.world_size = fields.integer("world_size");
  const std::string kind = fields.text("kind");
  const auto known = from_name<ManifestKind>(kind);
  if (!known) fields.refuse("kind is " + printable(kind) + "; wanted \"resume\", \"model\" or \"adapter\"");
  manifest.kind = *known;
  manifest.config_hash = fields.text("config_hash");
  for (const auto& [name, hash] : fields.object("plugins").items()) {
    if (!hash.is_string()) fields.refuse("has no string as the hash of plugin " + printable(name));
    manifest.plugins[name] = hash.get<std::string>();
  }
  manifest.state = fields.value("state");
  for (const auto& [name, item] : fields.object("files").items()) {
    JsonFields file(item, where + ": files: " + printable(name));
    manifest.files[name] = file.integer("bytes");
    manifest.sums[name] = uint32_t(file.integer("crc32c", max_sum));
    file.finish();
  }
  if (fields.has("hosts"))
    for (const auto& [name, host] : fields.object("hosts").items()) {
      if (!host.is_string()) fields.refuse("has no string as the host of " + printable(name));
      manifest.hosts[name] = host.get<std::string>();
    }
  for (const Json& item : fields.array("slices"))
    manifest.slices.push_back(read_slice(item, where + ": slice " + std::to_string(manifest.slices.size())));
  fields.finish();
  return manifest;
}

// Checks of a manifest's values, independent of the program that wrote it.

constexpr size_t max_dimensions = 32;
constexpr int64_t max_step = 1'000'000'000'000;

class ManifestCheck {
 public:
  ManifestCheck(const Manifest& manifest, const std::string& where, ExitStatus status)
      : manifest_(manifest), where_(where), status_(status) {}

  void run() const {
    if (manifest_.step < 0 || manifest_.step > max_step)
      refuse("step is " + std::to_string(manifest_.step) + "; wanted 0 to " + std::to_string(max_step));
    if (manifest_.world_size < 1 || manifest_.world_size > 1'000'000)
      refuse("world_size is " + std::to_string(manifest_.world_size) + "; wanted 1 to 1000000");
    for (const auto& [name, bytes] : manifest_.files) {
      if (!is_plain_file_name(name) || name == manifest_file_name)
        refuse("files names " + printable(name) + "; wanted names of files in the folder of the manifest");
      if (bytes < 0) refuse("files: " + printable(name) + " has " + std::to_string(bytes) + " bytes; wanted 0 or more");
    }
    for (const auto& [name, host] : manifest_.hosts)
      if (!manifest_.files.contains(name)) refuse("hosts names " + printable(name) + ", which \"files\" lacks");
    std::map<std::string, std::vector<const Slice*>> tensors;
    for (const Slice& slice : manifest_.slices) {
      check_slice(slice);
      tensors[slice.tensor].push_back(&slice);
    }
    for (auto& [tensor, slices] : tensors) check_cover(slices);
    if (manifest_.kind == ManifestKind::resume) {
      check_rank_files();
      check_pipeline_state(saved_state(manifest_, where_, status_), tensors);
    } else {
      check_single_rank();
    }
  }

 private:
  void check_slice(const Slice& slice) const {
    if (slice.tensor.empty() || slice.entry.empty()) refuse("a slice has an empty tensor or entry name");
    if (!manifest_.files.contains(slice.file))
      refuse(slice, "is in the file " + printable(slice.file) + ", which \"files\" lacks");
    count_all_elements(slice);  // refuses a shape that is too large
    check_columns(slice);
    const int64_t elements = count_elements(slice);
    if (slice.begin < 0 || slice.begin > slice.end || slice.end > elements) {
      refuse(slice, "is [" + std::to_string(slice.begin) + ", " + std::to_string(slice.end) + ") of " +
                        std::to_string(elements) + " elements; wanted a range inside the tensor");
    }
  }

  void check_columns(const Slice& slice) const {
    const std::vector<int64_t>& columns = slice.columns;
    if (columns.empty()) return;
    if (slice.shape.size() != 2 || columns.size() != 2 || columns[0] < 0 || columns[0] >= columns[1] ||
        columns[1] > slice.shape[1])
      refuse(slice, "has columns " + shape_text(columns) + " of the shape " + shape_text(slice.shape) +
                        "; wanted a first column and the end of a range inside a matrix");
  }

  /// Of the tensor, or of the slice's columns.
  int64_t count_elements(const Slice& slice) const {
    if (slice.columns.empty()) return count_all_elements(slice);
    return slice.shape[0] * (slice.columns[1] - slice.columns[0]);
  }

  int64_t count_all_elements(const Slice& slice) const {
    if (slice.shape.size() > max_dimensions) refuse(slice, "has more than 32 dimensions");
    int64_t largest_stride = 1;
    bool empty = false;
    for (const int64_t length : slice.shape) {
      empty |= length == 0;
      if (length < 0 || __builtin_mul_overflow(largest_stride, std::max<int64_t>(length, 1), &largest_stride))
        refuse(slice, "has a shape that is negative or too large");
    }
    return empty ? 0 : largest_stride;
  }

  /// The slices of each range of columns cover it, and the ranges cover the tensor.
  void check_cover(std::vector<const Slice*>& slices) const {
    std::map<std::vector<int64_t>, std::vector<const Slice*>> by_columns;
    for (const Slice* slice : slices) {
      if (slice->shape != slices.front()->shape) refuse(*slice, "has a different shape than the tensor's other slices");
      by_columns[slice->columns].push_back(slice);
    }
    int64_t covered = 0;  // columns; slices without columns come first
    for (auto& [columns, same] : by_columns) {
      check_cover_of_columns(same);
      const int64_t width = same.front()->shape.empty() ? 0 : same.front()->shape.back();
      if (columns.empty() ? by_columns.size() > 1 : columns[0] != covered)
        refuse(*same.front(), "is of columns that overlap those of other slices, or leave a gap");
      covered = columns.empty() ? width : columns[1];
    }
    const Slice& any = *slices.front();
    if (!any.columns.empty() && covered != any.shape.back())
      refuse(*by_columns.rbegin()->second.front(), "is of the last columns, which end at " + std::to_string(covered) +
                                                       " of " + std::to_string(any.shape.back()));
  }

  void check_cover_of_columns(std::vector<const Slice*>& slices) const {
    std::ranges::sort(slices, {}, [](const Slice* slice) { return std::pair(slice->begin, slice->end); });
    int64_t covered = 0;
    for (const Slice* slice : slices) {
      if (slice->begin != covered) {
        refuse(*slice, "begins at element " + std::to_string(slice->begin) + "; wanted " + std::to_string(covered) +
                           ", the end of the previous one");
      }
      covered = slice->end;
    }
    if (const int64_t elements = count_elements(*slices.front()); covered != elements) {
      refuse(*slices.back(), "ends at element " + std::to_string(covered) + " of " + std::to_string(elements) +
                                 "; wanted slices that cover the tensor");
    }
  }

  /// Every rank writes one file, even if it has nothing to save.
  void check_rank_files() const {
    const std::string size = "world_size is " + std::to_string(manifest_.world_size);
    int64_t listed = 0;
    for (const auto& [name, bytes] : manifest_.files) listed += name.starts_with("rank-") ? 1 : 0;
    for (int64_t rank = 0; rank < manifest_.world_size; ++rank) {
      if (const std::string name = rank_file_name(rank); !manifest_.files.contains(name))
        refuse(size + ", but \"files\" lacks " + name);
    }
    if (listed != manifest_.world_size)
      refuse(size + ", but \"files\" lists " + std::to_string(listed) + " files of ranks; wanted one per rank");
  }

  void check_single_rank() const {
    if (manifest_.world_size != 1)
      refuse("world_size is " + std::to_string(manifest_.world_size) + "; wanted 1 where kind is " +
             to_string(manifest_.kind));
    if (manifest_.state != Json::object())
      refuse("state is not empty; wanted {} where kind is " + std::string(to_string(manifest_.kind)));
  }

  void check_pipeline_state(const SavedState& state,
                            const std::map<std::string, std::vector<const Slice*>>& tensors) const {
    for (const auto& [name, shape] : state.pipeline_state_shapes) {
      const auto found = tensors.find(pipeline_prefix + name);
      if (found == tensors.end()) refuse("state: pipeline_tensors names " + printable(name) + ", which has no slice");
      if (found->second.front()->shape != shape)
        refuse(*found->second.front(), "has a different shape than in state: pipeline_tensors");
    }
    for (const auto& [tensor, slices] : tensors) {
      if (tensor.starts_with(pipeline_prefix) &&
          !state.pipeline_state_shapes.contains(tensor.substr(std::string_view(pipeline_prefix).size()))) {
        refuse(*slices.front(), "is missing in state: pipeline_tensors");
      }
    }
  }

  [[noreturn]] void refuse(const Slice& slice, const std::string& what) const {
    refuse("slice of tensor " + printable(slice.tensor) + " " + what);
  }
  [[noreturn]] void refuse(const std::string& what) const {
    throw Error(status_, where_ + ": " + what + "; the file was not written by this program");
  }

  const Manifest& manifest_;
  const std::string& where_;
  const ExitStatus status_;
};

uint32_t sum_of(const std::string& text) { return crc32c(text.data(), text.size()); }

/// The canonical text of a document, including its checksum; keys are in alphabetical order.
std::string canonical_text(Json document) {
  document["crc32c"] = sum_of(document.dump());
  return document.dump() + "\n";
}

/// Error(bug) if parsing the text would not give the same document.
std::string checked_text(const Json& document, const std::string& where) {
  try {
    std::string text = canonical_text(document);
    Json read_back = parse_strict_json(text, where);
    read_back.erase("crc32c");
    if (read_back == document) return text;
  } catch (const Json::exception&) {  // a string that is not UTF-8
  }
  throw Error(ExitStatus::bug, where +
                                   ": state contains a value that JSON cannot represent: a NaN, an infinity, binary "
                                   "data or a string that is not UTF-8");
}

void fill_from_folder(Manifest& manifest, const fs::path& folder) {
  std::map<std::string, int64_t> sizes;
  for (const fs::path& path : paths_in(folder)) {
    const InputFile file(path);
    sizes[path.filename()] = file.size();
    manifest.sums[path.filename()] = crc32c_outside(file, slice_ranges(path, manifest.slices));
  }
  for (const auto& [name, bytes] : manifest.files) {
    if (manifest.hosts.contains(name)) sizes.emplace(name, bytes);
    const auto found = sizes.find(name);
    if (found == sizes.end() || found->second != bytes) {
      const std::string size = found == sizes.end() ? "is missing" : "has " + std::to_string(found->second) + " bytes";
      throw Error(ExitStatus::bug,
                  (folder / name).string() + " " + size + "; wanted " + std::to_string(bytes) + " bytes");
    }
  }
  manifest.files = std::move(sizes);
}

}  // namespace

void to_json(Json& json, const Slice& slice) {
  json = {{"tensor", slice.tensor}, {"shape", slice.shape}, {"begin", slice.begin},  {"end", slice.end},
          {"file", slice.file},     {"entry", slice.entry}, {"crc32c", slice.crc32c}};
  if (!slice.columns.empty()) json["columns"] = slice.columns;
}

void from_json(const Json& json, Slice& slice) { slice = read_slice(json, "slice"); }

Json to_json(const Manifest& manifest) {
  Json files = Json::object();
  for (const auto& [name, bytes] : manifest.files) {
    const auto sum = manifest.sums.find(name);
    files[name] = {{"bytes", bytes}, {"crc32c", sum == manifest.sums.end() ? 0 : sum->second}};
  }
  Json document{
      {"format", "wmtp-checkpoint"},       {"version", current_version},       {"step", manifest.step},
      {"world_size", manifest.world_size}, {"kind", to_string(manifest.kind)}, {"config_hash", manifest.config_hash},
      {"plugins", manifest.plugins},       {"state", manifest.state},          {"files", std::move(files)},
      {"slices", manifest.slices}};
  if (!manifest.hosts.empty()) document["hosts"] = manifest.hosts;
  return document;
}

Manifest parse_manifest(std::string_view text, const std::string& where) {
  Json document = parse_strict_json(text, where);
  if (!document.is_object() || !document.contains("crc32c"))
    throw Error(ExitStatus::data, where + ": crc32c is missing; the file is damaged, or is not a manifest");
  const Json sum = document["crc32c"];
  document.erase("crc32c");
  const uint32_t wanted = sum_of(document.dump());
  if (sum != wanted) {
    throw Error(ExitStatus::data, where + ": its content has the checksum " + std::to_string(wanted) +
                                      ", its crc32c is " + json_text(sum) + "; the file is damaged");
  }
  if (text != canonical_text(document))
    throw Error(ExitStatus::data, where + ": its text is not canonical; the file is damaged or was edited");
  if (const auto version = document.find("version"); version != document.end() && *version != current_version) {
    throw UnknownManifestVersion(where + ": version " + json_text(*version) + "; this program reads " +
                                 std::to_string(current_version) + "; use the program that wrote it");
  }
  Manifest manifest = read_document(document, where);
  ManifestCheck(manifest, where, ExitStatus::data).run();
  return manifest;
}

Manifest read_manifest(const fs::path& folder) {
  const fs::path path = folder / manifest_file_name;
  return parse_manifest(read_small_file(path, max_manifest), path.string());
}

void write_manifest(const fs::path& folder, const Manifest& manifest) {
  const fs::path path = folder / manifest_file_name;
  Manifest complete = manifest;
  fill_from_folder(complete, folder);
  const std::string text = checked_text(to_json(complete), path.string());
  ManifestCheck(complete, path.string(), ExitStatus::bug).run();
  if (int64_t(text.size()) > max_manifest) {
    throw Error(ExitStatus::bug,
                path.string() + ": " + std::to_string(text.size()) + " bytes, more than readers accept");
  }
  write_new_file(path, text);
}

std::string checkpoint_name(int64_t step) { return printed("step-%06lld", static_cast<long long>(step)); }

int64_t parse_checkpoint_step(std::string_view name) {
  constexpr std::string_view prefix = "step-";
  if (!name.starts_with(prefix)) return -1;
  const int64_t step = parsed_number(name.substr(prefix.size())).value_or(-1);
  // Only the canonical name is accepted: two folders must not denote the same step.
  return step >= 0 && name == checkpoint_name(step) ? step : -1;
}

std::string rank_file_name(int64_t rank) { return printed("rank-%04lld.safetensors", static_cast<long long>(rank)); }

std::vector<fs::path> list_checkpoints(const fs::path& run_folder) {
  std::vector<fs::path> folders;
  std::error_code ignored;
  for (const fs::path& path : paths_in(run_folder))
    if (parse_checkpoint_step(path.filename().string()) >= 0 && fs::is_directory(path, ignored))
      folders.push_back(path);
  std::ranges::sort(folders, std::greater<>{},
                    [](const fs::path& folder) { return parse_checkpoint_step(folder.filename().string()); });
  return folders;
}

}  // namespace wmtp
