#include "core/checkpoints/manifest.hpp"

#include <limits>

#include "base/json_fields.hpp"
#include "base/storage_error.hpp"
#include "base/strict_json.hpp"
#include "core/checkpoints/manifest_sums.hpp"
#include "io/durable_file.hpp"
#include "io/input_file.hpp"

namespace wmtp {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

constexpr int64_t max_manifest = 16 << 20;
constexpr int64_t current_version = 1;
constexpr int64_t max_sum = std::numeric_limits<uint32_t>::max();

Slice read_slice(const json& item, const std::string& where) {
  JsonFields fields(item, where);
  Slice slice;
  slice.tensor = fields.text("tensor");
  slice.shape = fields.integers("shape");
  slice.begin = fields.integer("begin");
  slice.end = fields.integer("end");
  slice.file = fields.text("file");
  slice.entry = fields.text("entry");
  slice.crc32c = static_cast<uint32_t>(fields.integer("crc32c", max_sum));
  fields.finish();
  return slice;
}

Manifest read_document(const json& document, const std::string& where) {
  JsonFields fields(document, where + ": it");
  if (fields.text("format") != "wmtp-checkpoint") fields.refuse("names another format than wmtp-checkpoint");
  fields.integer("version");
  Manifest manifest;
  manifest.step = fields.integer("step");
  manifest.world_size = fields.integer("world_size");
  manifest.kind = fields.text("kind");
  manifest.config_hash = fields.text("config_hash");
  for (const auto& [name, hash] : fields.object("plugins").items()) {
    if (!hash.is_string()) fields.refuse("plugins: " + printable(name) + " has no string as hash");
    manifest.plugins[name] = hash.get<std::string>();
  }
  manifest.state = fields.value("state");
  for (const auto& [name, item] : fields.object("files").items()) {
    JsonFields file(item, where + ": files: " + printable(name));
    manifest.files[name] = file.integer("bytes");
    manifest.sums[name] = static_cast<uint32_t>(file.integer("crc32c", max_sum));
    file.finish();
  }
  for (const json& item : fields.array("slices")) {
    manifest.slices.push_back(read_slice(item, where + ": slice " + std::to_string(manifest.slices.size())));
  }
  fields.finish();
  return manifest;
}

uint32_t sum_of(const std::string& text) { return crc32c(text.data(), text.size()); }

/// The canonical text of a document, including its checksum; keys are in alphabetical order.
std::string canonical_text(json document) {
  document["crc32c"] = sum_of(document.dump());
  return document.dump() + "\n";
}

/// Error(bug) if parsing the text would not restore the document.
std::string checked_text(const json& document, const std::string& where) {
  try {
    std::string text = canonical_text(document);
    json read_back = parse_strict_json(text, where);
    read_back.erase("crc32c");
    if (read_back == document) return text;
  } catch (const json::exception&) {  // a string that is not UTF-8
  }
  throw Error(ExitStatus::bug, where +
                                   ": state contains a value that JSON cannot represent: a NaN, an infinity, binary "
                                   "data or a string that is not UTF-8");
}

void fill_from_folder(Manifest& manifest, const fs::path& folder) {
  std::map<std::string, int64_t> sizes;
  std::error_code failure;
  for (fs::directory_iterator item(folder, failure), end; !failure && item != end; item.increment(failure)) {
    const fs::path& path = item->path();
    const InputFile file(path);
    sizes[path.filename()] = file.size();
    manifest.sums[path.filename()] = crc32c_outside(file, slice_ranges(path, manifest.slices));
  }
  if (failure) throw storage_error("list", folder, failure.value());
  for (const auto& [name, bytes] : manifest.files) {
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

json to_json(const Manifest& manifest) {
  json files = json::object(), slices = json::array();
  for (const auto& [name, bytes] : manifest.files) {
    const auto sum = manifest.sums.find(name);
    files[name] = {{"bytes", bytes}, {"crc32c", sum == manifest.sums.end() ? 0 : sum->second}};
  }
  for (const Slice& slice : manifest.slices) {
    slices.push_back({{"tensor", slice.tensor},
                      {"shape", slice.shape},
                      {"begin", slice.begin},
                      {"end", slice.end},
                      {"file", slice.file},
                      {"entry", slice.entry},
                      {"crc32c", slice.crc32c}});
  }
  return {{"format", "wmtp-checkpoint"},       {"version", current_version}, {"step", manifest.step},
          {"world_size", manifest.world_size}, {"kind", manifest.kind},      {"config_hash", manifest.config_hash},
          {"plugins", manifest.plugins},       {"state", manifest.state},    {"files", std::move(files)},
          {"slices", std::move(slices)}};
}

Manifest parse_manifest(std::string_view text, const std::string& where) {
  json document = parse_strict_json(text, where);
  if (!document.is_object() || !document.contains("crc32c")) {
    throw Error(ExitStatus::data, where + ": crc32c is missing; the file is damaged, or is not a manifest");
  }
  const json sum = document["crc32c"];
  document.erase("crc32c");
  const uint32_t wanted = sum_of(document.dump());
  if (sum != wanted) {
    throw Error(ExitStatus::data, where + ": its content has the checksum " + std::to_string(wanted) +
                                      ", its crc32c is " + sum.dump().substr(0, 40) + "; the file is damaged");
  }
  if (text != canonical_text(document)) {
    throw Error(ExitStatus::data, where + ": its text is not canonical; the file is damaged or was edited");
  }
  if (const auto version = document.find("version"); version != document.end() && *version != current_version) {
    throw UnknownManifestVersion(where + ": version " + version->dump().substr(0, 40) + "; this program reads " +
                                 std::to_string(current_version) + "; use the program that wrote it");
  }
  Manifest manifest = read_document(document, where);
  check_manifest(manifest, where, ExitStatus::data);
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
  check_manifest(complete, path.string(), ExitStatus::bug);
  if (static_cast<int64_t>(text.size()) > max_manifest) {
    throw Error(ExitStatus::bug,
                path.string() + ": " + std::to_string(text.size()) + " bytes, more than readers accept");
  }
  write_new_file(path, text);
}

}  // namespace wmtp
