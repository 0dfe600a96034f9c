// The published formats of records: which fields a line has, and how they become records.
//
// | data.format   | fields of a line                                                                              |
// | ---           | ---                                                                                           |
// | instructions  | instruction, output, input if there is one                                                    |
// | messages      | messages: a list of {role, content}, as of OpenAI and transformers                            |
// | conversations | conversations: a list of {from, value}, as of ShareGPT, or of {role, content}                 |
// | completions   | prompt, completion: strings, or lists of messages                                             |
// | preferences   | chosen, rejected: strings after a string prompt, or lists of messages with or without prompt  |
//
// Messages may come with tools. task_id, is_correct and metadata.difficulty are read in every format (record_file.hpp);
// fields with which other programs train differently are refused; others are ignored.
#pragma once

#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "base/json.hpp"

namespace wmtp {

struct Prompt;
struct Record;

const std::vector<std::string>& record_formats();

/// Whether the object has the fields of a format.
bool fits_record_format(const Json& object);

/// The format of a file by its first ten objects: the only one that matches the first recognizable object.
/// "instructions" if no line is an object, so that reading the lines reports why. Error(data) if no format fits, or
/// several do, with the fields found.
std::string recognised_format(const std::filesystem::path& file);

/// Fills the texts of `record` from the fields of its line and calls on_record() for each answer: one, or the right and
/// the wrong one of a preference. refuse(field, value or null, wanted) is called for each mistake, and on_record() then
/// not.
class RecordFields {
 public:
  using Refuse = std::function<void(const std::string& field, const OrderedJson* found, const std::string& wanted)>;

  /// `weights`: whether weights are read (record_weights.hpp).
  RecordFields(const std::string& format, const OrderedJson& line, const Refuse& refuse, bool weights = false)
      : format_(format), line_(line), refuse_(refuse), reads_weights_(weights) {}
  void read(Record& record, const std::function<void()>& on_record);
  /// Fills the messages and tools of a chat to be answered; false for a mistake. `answer`, if not null, gets the last
  /// message, which then is the answer and no part of the prompt. [format "messages"]
  bool read_prompt(Prompt& prompt, std::string* answer = nullptr);

 private:
  const OrderedJson* field(const std::string& name) const;
  void refuse(const std::string& field, const OrderedJson* found, const std::string& wanted);
  std::string text(const std::string& name, bool required);
  OrderedJson messages(const std::string& name, const OrderedJson* found);
  OrderedJson message(const std::string& place, const OrderedJson& given);
  /// Refuses a field that other programs read, unless it is empty.
  void refuse_unread(const std::string& name);
  void refuse_unread(const std::string& name, const OrderedJson* value);
  void refuse_disliked();
  void read_tools(Prompt& prompt);
  void read_chat(Record& record, const std::string& name);
  void read_completion(Record& record);
  void read_preference(Record& record, const std::function<void()>& on_record);
  OrderedJson preferred(const std::string& name);
  bool has_answer(const Record& record, const std::string& name);
  void read_weight(Record& record);
  void keep_weights(const std::string& place, const OrderedJson& given, OrderedJson& message);
  void take_weights(Record& record);

  const std::string& format_;
  const OrderedJson& line_;
  const Refuse& refuse_;
  bool reads_weights_, has_weights_ = false, weighs_messages_ = false;
  bool good_ = true;
};

}  // namespace wmtp
