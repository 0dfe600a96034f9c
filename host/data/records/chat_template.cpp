#include "data/records/chat_template.hpp"

#include <optional>

#include "base/error.hpp"
#include "base/text.hpp"
#include "data/text/json_lines.hpp"
#include "process/python_program.hpp"
#include "process/socket_child.hpp"
#include "tokenizer/tokenizer_files.hpp"

namespace wmtp {
namespace {

namespace fs = std::filesystem;

constexpr int reply_timeout_ms = 60'000;
constexpr size_t max_reply_bytes = 4 * max_line_bytes;

}  // namespace

ChatTemplate::ChatTemplate(const fs::path& tokenizer, TemplateSetting where) {
  const std::string chatml = template_setting(where, "chatml");
  const auto found = read_chat_template(tokenizer);
  if (!found)
    throw Error(ExitStatus::data, tokenizer.parent_path().string() +
                                      " contains no chat template, which records of messages need: wanted " +
                                      chat_template_name + ", or chat_template in " + tokenizer_config_name +
                                      "; add the one of the model, or choose " + chatml);
  file_ = found->file;
  tool_use_file_ = found->tool_use_file;
  const PythonProgram renderer{"chats.py", "renders chat templates", "jinja2>=3.1.6"};
  const ChildRequest program = renderer.request();
  process_ = std::make_unique<SocketChild>(program, /*has_stdout=*/false);
  const auto reply =
      request_reply({{"template", found->text}, {"with_tools", found->with_tools}, {"tokens", found->tokens}});
  if (!reply || reply->contains("missing"))
    throw Error(ExitStatus::usage,
                (reply ? reply->at("missing").get<std::string>() : program.program.string() + " cannot render chats") +
                    "; " + renderer.advice() + "; " + chatml + " needs neither");
  check_usable(*reply);
}

ChatTemplate::~ChatTemplate() = default;

/// nullopt if the program has ended, is silent, or does not stop writing. It reads a whole line before it answers with
/// one, so that neither waits forever.
std::optional<Json> ChatTemplate::request_reply(const OrderedJson& payload) {
  return process_->send_json(payload) ? process_->receive_json(reply_timeout_ms, max_reply_bytes) : std::nullopt;
}

void ChatTemplate::check_usable(const Json& reply) const {
  if (reply.contains("unusable"))
    throw Error(ExitStatus::data,
                file_.string() + ": the chat template cannot be used: " + reply.at("unusable").get<std::string>());
}

std::vector<std::string> ChatTemplate::render(const Record& record) {
  const Json reply = request_chat(record, record.prompt_messages);
  if (const std::string what = reply.at("left_out"); !what.empty() && ++left_out_.chats == 1) left_out_.first = what;
  return reply.at("parts").get<std::vector<std::string>>();
}

ChatPrompt ChatTemplate::render_prompt(const Prompt& chat) {
  const Json reply = request_chat(chat, nullptr);
  return {reply.at("prompt"), reply.at("before"), reply.at("after")};
}

Json ChatTemplate::request_chat(const Prompt& chat, const OrderedJson& first) {
  if (!tool_use_file_.empty() && !chat.tools.is_null())
    throw LineMistake{{},
                      "tools",
                      "found tools, wanted none: their template " + tool_use_file_.string() +
                          " is not read; name both in " + tokenizer_config_name +
                          ": chat_template = a list of {\"name\", \"template\"}, default and "
                          "tool_use, and remove " +
                          chat_template_name};
  const auto reply = request_reply({{"messages", chat.messages}, {"tools", chat.tools}, {"first", first}});
  if (!reply)
    throw Error(ExitStatus::data, file_.string() + ": the chat template could not render a chat within a minute and " +
                                      human_bytes(int64_t{4} << 30) + " of memory");
  check_usable(*reply);
  if (reply->contains("refused"))
    throw LineMistake{{}, "", "the chat template refuses the messages: " + reply->at("refused").get<std::string>()};
  return *reply;
}

std::vector<std::string> chatml_parts(const Record& record) {
  std::vector<std::string> parts{""};
  if (!record.tools.empty()) throw LineMistake{{}, "tools", "template \"chatml\" has no tools"};
  for (size_t i = 0; i < record.messages.size(); ++i) {
    const auto& message = record.messages[i];
    if (message.size() != 2 || !message.contains("content"))
      throw LineMistake{{},
                        "message " + std::to_string(i + 1),
                        "template \"chatml\" writes a role and a content, found more fields or no content"};
    const std::string role = message.at("role").get<std::string>();
    parts.back() += (i > 0 ? "\n<|im_start|>" : "<|im_start|>") + role + "\n";
    const bool is_answer = role == "assistant" && i >= record.prompt_messages;
    if (is_answer) parts.emplace_back();
    parts.back() += message.at("content").get<std::string>() + "<|im_end|>";
    if (is_answer) parts.emplace_back();
  }
  return parts;
}

ChatPrompt chatml_prompt(const Prompt& chat) {
  Record asked;
  static_cast<Prompt&>(asked) = chat;
  asked.prompt_messages = asked.messages.size();
  return {chatml_parts(asked)[0] + "\n<|im_start|>assistant\n", "", "<|im_end|>"};
}

}  // namespace wmtp
