// The files of an existing tokenizer, copied into every folder of a model or of prepared data: tokenizer.json or
// tokenizer.model (SentencePiece); tokenizer_config.json, which names the end-of-text token and whether a SentencePiece
// model prepends its BOS to a text; and chat_template.jinja. Tokenizers trained by this program have neither of the
// last two.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace wmtp {

inline constexpr const char* tokenizer_model_name = "tokenizer.model";
inline constexpr const char* tokenizer_json_name = "tokenizer.json";
inline constexpr const char* tokenizer_config_name = "tokenizer_config.json";
inline constexpr const char* chat_template_name = "chat_template.jinja";
inline constexpr int64_t max_tokenizer_bytes = int64_t{64} << 20;  ///< per file

/// Depends only on the extension .json; all other files are SentencePiece models.
bool is_tokenizer_json(const std::filesystem::path& file);

std::filesystem::path tokenizer_file_in(const std::filesystem::path& folder);

struct TokenizerConfigFile {
  std::string bos_token, eos_token;   ///< "" if not named
  bool add_bos_token = true;          ///< for a SentencePiece model; the default is Llama's
  bool split_special_tokens = false;  ///< for a tokenizer.json: special tokens in a text are text like any other
  bool adds_prefix_space = true;      ///< for SentencePiece's BPE in JSON; false only for a Llama's tokenizer_class
  std::optional<bool> byte_level_prefix =
      std::nullopt;  ///< a space before texts, which GPT-2's tokenizer_class adds or does not
  struct AddedToken {
    int64_t id;
    std::string content;
    bool normalized, lstrip, rstrip, single_word;
  };
  std::vector<AddedToken> added = {};   ///< the added_tokens_decoder
  std::vector<std::string> named = {};  ///< other special tokens, which transformers adds to a tokenizer without them
  std::string pad_token = {};           ///< one of these, which no text contains; "" if not named
};
/// tokenizer_config.json in the folder of `file`; nullopt if there is none. Error(data) if it is malformed, or appends
/// an EOS to every text: prompts would end with it. Also the tokens of the older files special_tokens_map.json and
/// added_tokens.json, which transformers reads unless there is an added_tokens_decoder.
std::optional<TokenizerConfigFile> read_tokenizer_config(const std::filesystem::path& file);

struct ChatTemplateFile {
  std::string text;                           ///< in Jinja
  std::string with_tools;                     ///< for records with tools; "" if it is the same
  std::filesystem::path tool_use_file;        ///< a file with a template for records with tools, which is not read
  std::map<std::string, std::string> tokens;  ///< the special tokens of tokenizer_config.json that it may write
  std::filesystem::path file;                 ///< that contains it
};
/// The chat template in the folder of `file`: chat_template.jinja, else `chat_template` in tokenizer_config.json, of
/// several those named "default" and "tool_use"; nullopt if there is none. Error(data) if a file is malformed.
std::optional<ChatTemplateFile> read_chat_template(const std::filesystem::path& file);

/// tokenizer_config.json of a SentencePiece model for transformers: with a BOS and a space before texts, as in Llama's
/// own model, or with neither, as in models trained by this program.
std::string llama_tokenizer_config(bool begins_texts);

/// Copies a file of an untrusted folder under the same name; false if it is not there. Error(data) if it is a link out
/// of the folder, or cannot be read.
bool copy_from_folder(const std::filesystem::path& from, const char* name, const std::filesystem::path& to);

/// Copies `file` into `folder` under the standard name of its kind, with the other two if they exist. Warns of a chat
/// template for records with tools that is not copied. Error(data) if one cannot be read, or one of the other two is a
/// link out of its folder.
void copy_tokenizer_files(const std::filesystem::path& file, const std::filesystem::path& folder);

/// SHA-256 of the files copied by copy_tokenizer_files.
std::string tokenizer_hash(const std::filesystem::path& file);

}  // namespace wmtp
