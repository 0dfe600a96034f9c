#include "data/tokenizer_files.hpp"

#include <fstream>
#include <iterator>
#include <string>

#include "base/error.hpp"
#include "base/sha256.hpp"
#include "data/synced_file.hpp"

namespace wmtp {
namespace {

namespace fs = std::filesystem;

fs::path config_beside(const fs::path& file) { return file.parent_path() / tokenizer_config_name; }

bool has_config(const fs::path& file) {
  std::error_code ignored;
  return is_tokenizer_json(file) && fs::exists(config_beside(file), ignored);
}

void check_is_there(const fs::path& file) {
  std::error_code ignored;
  if (!fs::is_regular_file(file, ignored))
    throw Error(ExitStatus::data, "data.tokenizer.file: there is no file " + file.string());
}

void copy_one(const fs::path& from, const fs::path& to) {
  std::ifstream in(from, std::ios::binary);
  const std::string bytes(std::istreambuf_iterator<char>(in), {});
  if (!in.is_open() || in.bad()) throw Error(ExitStatus::data, "cannot read " + from.string());
  SyncedFile out(to);
  out.add(bytes);
  out.finish();
}

}  // namespace

bool is_tokenizer_json(const fs::path& file) { return file.extension() == ".json"; }

fs::path tokenizer_file_in(const fs::path& folder) {
  std::error_code ignored;
  return folder / (fs::exists(folder / tokenizer_json_name, ignored) ? tokenizer_json_name : tokenizer_model_name);
}

void copy_tokenizer_files(const fs::path& file, const fs::path& folder) {
  check_is_there(file);
  copy_one(file, folder / (is_tokenizer_json(file) ? tokenizer_json_name : tokenizer_model_name));
  if (has_config(file)) copy_one(config_beside(file), folder / tokenizer_config_name);
}

std::string tokenizer_hash(const fs::path& file) {
  check_is_there(file);
  return sha256_of_file(file) + (has_config(file) ? " " + sha256_of_file(config_beside(file)) : "");
}

}  // namespace wmtp
