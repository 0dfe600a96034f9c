#include "job/weights_hash.hpp"

#include <algorithm>
#include <vector>

#include "base/error.hpp"
#include "base/files.hpp"
#include "base/sha256.hpp"
#include "base/work_progress.hpp"
#include "checkpoint/manifest.hpp"
#include "huggingface/hf_config.hpp"
#include "huggingface/initial_weights.hpp"
#include "huggingface/params_file.hpp"
#include "io/file_digests.hpp"
#include "log/run_folders.hpp"

namespace wmtp {
namespace {

std::string file_hash(const std::filesystem::path& file, FileDigests& digests) {
  check_is_file(file);
  if (const auto known = digests.known(file)) return *known;
  WorkProgress progress("reading " + file.filename().string(), int64_t(std::filesystem::file_size(file)),
                        WorkProgress::Unit::bytes);
  return digests.read(file, &progress);
}

std::string named_hash(const std::filesystem::path& file, FileDigests& digests) {
  return file.filename().string() + " " + file_hash(file, digests) + "\n";
}

/// Of one file of weights, with the statement of its shape, if there is one: another rope_theta makes another model of
/// the same tensors.
std::string stated_file_hash(const std::filesystem::path& weights, FileDigests& digests) {
  const std::string content = file_hash(weights, digests);
  const auto statement = shape_statement(weights);
  if (!statement) return content;
  using Names = std::vector<const char*>;
  Sha256 hash;
  hash.add(content + "\n");
  for (const char* name : statement->is_hf ? Names{hf_config_name, heads_identity_name} : Names{params_file_name})
    if (is_there(statement->folder / name)) hash.add(named_hash(statement->folder / name, digests));
  return hash.hex();
}

}  // namespace

std::string weights_content_hash(const std::filesystem::path& weights, const std::filesystem::path& database) {
  const bool is_folder = std::filesystem::is_directory(weights);
  if (const auto manifest = weights / manifest_file_name; is_folder && std::filesystem::exists(manifest))
    return file_sha256_hex(manifest);
  FileDigests digests(cache_folder_path(database) / "hashes.txt");
  if (!is_folder) return stated_file_hash(weights, digests);
  std::vector<std::filesystem::path> files;
  for (const auto& entry : std::filesystem::directory_iterator(weights)) {
    const auto extension = entry.path().extension();
    if (entry.is_regular_file() && (extension == ".safetensors" || extension == ".json")) files.push_back(entry.path());
  }
  if (files.empty())
    throw Error(ExitStatus::data, weights.string() + " contains no weights: wanted *.safetensors in it");
  std::sort(files.begin(), files.end());
  Sha256 hash;
  for (const auto& file : files) hash.add(named_hash(file, digests));
  return hash.hex();
}

}  // namespace wmtp
