#include "core/tokenizer/tokenizer_files.hpp"

#include <nlohmann/json.hpp>
#include <string>

#include "base/error.hpp"
#include "base/files.hpp"
#include "base/json.hpp"
#include "base/sha256.hpp"
#include "io/durable_file.hpp"
#include "io/input_file.hpp"

namespace wmtp {
namespace {

namespace fs = std::filesystem;

fs::path config_path(const fs::path& file) { return file.parent_path() / tokenizer_config_name; }

bool has_config(const fs::path& file) { return is_there(config_path(file)); }

void copy_one(const fs::path& from, const fs::path& to) {
  write_new_file(to, read_small_file(from, max_tokenizer_bytes));
}

}  // namespace

bool is_tokenizer_json(const fs::path& file) { return file.extension() == ".json"; }

fs::path tokenizer_file_in(const fs::path& folder) {
  return folder / (is_there(folder / tokenizer_json_name) ? tokenizer_json_name : tokenizer_model_name);
}

std::optional<TokenizerConfigFile> read_tokenizer_config(const fs::path& file) {
  if (!has_config(file)) return std::nullopt;
  const std::string where = config_path(file).string();
  const nlohmann::json config = parse_strict_json(read_small_file(where, max_tokenizer_bytes), where);
  if (!config.is_object()) throw Error(ExitStatus::data, where + ": wanted an object");
  const auto token = [&](const char* key) {
    nlohmann::json value = config.value(key, nlohmann::json());
    if (value.is_object()) value = value.value("content", nlohmann::json());
    return value.is_string() ? value.get<std::string>() : std::string();
  };
  const auto flag = [&](const char* key, bool fallback) {
    const nlohmann::json value = config.value(key, nlohmann::json());
    if (value.is_null()) return fallback;
    if (!value.is_boolean())
      throw Error(ExitStatus::data, where + ": " + key + " is " + value.dump() + ", wanted true or false");
    return value.get<bool>();
  };
  if (!is_tokenizer_json(file) && flag("add_eos_token", false))
    throw Error(ExitStatus::data,
                where + ": add_eos_token is true, wanted false: a prompt would end with the token that ends a text");
  return TokenizerConfigFile{token("bos_token"), token("eos_token"), flag("add_bos_token", true)};
}

std::string llama_tokenizer_config(bool begins_texts) {
  return nlohmann::json{{"add_bos_token", begins_texts},
                        {"add_prefix_space", begins_texts},
                        {"bos_token", "<s>"},
                        {"eos_token", "</s>"},
                        {"legacy", false},
                        {"tokenizer_class", "LlamaTokenizer"},
                        {"unk_token", "<unk>"}}
             .dump(2) +
         "\n";
}

void copy_tokenizer_files(const fs::path& file, const fs::path& folder) {
  copy_one(file, folder / (is_tokenizer_json(file) ? tokenizer_json_name : tokenizer_model_name));
  if (has_config(file)) copy_one(config_path(file), folder / tokenizer_config_name);
}

std::string tokenizer_hash(const fs::path& file) {
  return sha256_of_file(file) + (has_config(file) ? " " + sha256_of_file(config_path(file)) : "");
}

}  // namespace wmtp
