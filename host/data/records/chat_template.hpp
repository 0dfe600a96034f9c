// Renders chats with the chat template of a tokenizer, which is an untrusted program in Jinja: jinja2 itself runs it,
// in a sandbox, in a Python process (programs/chats.py) that gets one chat after the other.
#pragma once

#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "data/records/record_file.hpp"
#include "experiment/prompt_templates.hpp"

namespace wmtp {

class SocketChild;

/// The text of a chat up to the answer of the assistant that follows it, and what the template writes around the
/// content of that answer; "" for `after` if it hides that.
struct ChatPrompt {
  std::string text, before, after;
};

class ChatTemplate {
 public:
  /// `tokenizer`: a tokenizer.json. Error(data) if there is no template in its folder, or the template is invalid;
  /// Error(usage) if there is no Python with jinja2. `where`: how messages name another template.
  ChatTemplate(const std::filesystem::path& tokenizer, TemplateSetting where);
  ~ChatTemplate();

  /// The text of a chat in parts, alternately a prompt (the first, which may be empty) and an answer. Throws a
  /// LineMistake if the template refuses the chat; Error(data) if it hides where the answers are.
  std::vector<std::string> render(const Record& record);
  /// Throws a LineMistake if the template refuses the chat.
  ChatPrompt render_prompt(const Prompt& chat);

  /// The rendered chats of which the template left something out, and what it was in the first: "message 1 (system)".
  struct LeftOut {
    int64_t chats = 0;
    std::string first;
  };
  const LeftOut& left_out() const { return left_out_; }

 private:
  std::optional<Json> request_reply(const OrderedJson& payload);
  /// `first`: as chats.py wants it.
  Json request_chat(const Prompt& chat, const OrderedJson& first);
  void check_usable(const Json& reply) const;

  std::filesystem::path file_, tool_use_file_;
  std::unique_ptr<SocketChild> process_;
  LeftOut left_out_;
};

/// The same in ChatML: <|im_start|>ROLE, newline, content, <|im_end|> for each message; newlines between them. An
/// answer is a content with its <|im_end|>. Throws a LineMistake for a message that is more than a role and a content.
std::vector<std::string> chatml_parts(const Record& record);
ChatPrompt chatml_prompt(const Prompt& chat);

}  // namespace wmtp
