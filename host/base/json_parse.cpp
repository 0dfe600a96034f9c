#include "base/json_parse.hpp"

#include <type_traits>
#include <unordered_map>
#include <vector>

namespace wmtp {
namespace {

template <class AnyJson>
class Builder : public nlohmann::json_sax<AnyJson> {
 public:
  explicit Builder(const JsonRules& rules) : rules_(rules) {}

  AnyJson take() { return std::move(root_); }

  bool null() override {
    return passed(0, [](Reader& reader) { reader.null(); }) || add(nullptr);
  }
  bool boolean(bool value) override {
    return passed(0, [&](Reader& reader) { reader.boolean(value); }) || add(value);
  }
  bool number_integer(typename AnyJson::number_integer_t value) override {
    return passed(0, [&](Reader& reader) { reader.number_integer(value); }) || add(value);
  }
  bool number_unsigned(typename AnyJson::number_unsigned_t value) override {
    return passed(0, [&](Reader& reader) { reader.number_unsigned(value); }) || add(value);
  }
  bool number_float(typename AnyJson::number_float_t value, const std::string& digits) override {
    if (digits.find_first_of(".eE") == std::string::npos) rules_.inexact();
    return passed(0, [&](Reader& reader) { reader.number_float(value, digits); }) || add(value);
  }
  bool string(std::string& value) override {
    return passed(0, [&](Reader& reader) { reader.string(value); }) || add(std::move(value));
  }
  bool binary(typename AnyJson::binary_t& value) override { return add(std::move(value)); }  // not in a text

  bool start_object(size_t count) override {
    if (passed(1, [&](Reader& reader) { reader.start_object(count); })) return true;
    open(AnyJson::object());
    if constexpr (is_ordered) places_.emplace_back();
    return true;
  }
  bool start_array(size_t count) override {
    if (passed(1, [&](Reader& reader) { reader.start_array(count); })) return true;
    open(AnyJson::array());
    return true;
  }
  bool end_object() override {
    if (passed(-1, [](Reader& reader) { reader.end_object(); })) return true;
    if constexpr (is_ordered) places_.pop_back();
    open_.pop_back();
    return true;
  }
  bool end_array() override {
    if (passed(-1, [](Reader& reader) { reader.end_array(); })) return true;
    open_.pop_back();
    return true;
  }

  bool key(std::string& name) override {
    if (passed(0, [&](Reader& reader) { reader.key(name); })) return true;
    check_depth();
    const size_t depth = open_.size() - 1;
    if (!rules_.wants(depth, name)) {
      member_ = &left_out_;
      return true;
    }
    auto& members = open_.back()->template get_ref<typename AnyJson::object_t&>();
    if constexpr (is_ordered) {
      const auto [place, is_new] = places_.back().try_emplace(name, members.size());
      if (is_new)
        members.emplace_back(name, AnyJson());
      else
        rules_.repeated_key(depth, name);
      member_ = &members.data()[place->second].second;
    } else {
      const auto [member, is_new] = members.try_emplace(name);
      if (!is_new) rules_.repeated_key(depth, name);
      member_ = &member->second;
    }
    if (rules_.reader) reader_ = rules_.reader(depth, name);
    return true;
  }

  bool parse_error(size_t /*position*/, const std::string& /*token*/, const Json::exception& error) override {
    if (const auto* invalid = dynamic_cast<const Json::parse_error*>(&error)) throw *invalid;
    throw static_cast<const Json::out_of_range&>(error);  // a number
  }

 private:
  using Reader = nlohmann::json_sax<Json>;
  static constexpr bool is_ordered = std::is_same_v<AnyJson, OrderedJson>;  // its objects are lists

  void check_depth() const {
    if (open_.size() + read_depth_ > rules_.max_depth) rules_.too_deep();
  }

  /// Passes an event to the reader of the current member's value; false if there is none. `opens`: 1 for the begin of a
  /// list or an object, -1 for its end.
  template <class Event>
  bool passed(int opens, Event event) {
    if (!reader_) return false;
    check_depth();
    event(*reader_);
    read_depth_ += size_t(opens);
    if (read_depth_ == 0) reader_ = nullptr;  // the value is complete
    return true;
  }

  AnyJson& place() {
    check_depth();
    if (open_.empty()) return root_;
    if (open_.back()->is_array()) return open_.back()->template get_ref<typename AnyJson::array_t&>().emplace_back();
    return *member_;
  }

  bool add(AnyJson value) {
    place() = std::move(value);
    return true;
  }

  void open(AnyJson value) {
    AnyJson& here = place();
    here = std::move(value);
    open_.push_back(&here);  // remains valid: nothing is added to the containers around it while it is open
  }

  const JsonRules& rules_;
  AnyJson root_, left_out_;
  AnyJson* member_ = nullptr;  ///< of the innermost object, whose key was read last
  Reader* reader_ = nullptr;
  size_t read_depth_ = 0;  ///< open lists and objects within the value that reader_ takes
  std::vector<AnyJson*> open_;
  std::vector<std::unordered_map<std::string, size_t>> places_;  ///< of each key in an open ordered object
};

}  // namespace

template <class AnyJson>
AnyJson parse_json(std::string_view text, const JsonRules& rules) {
  Builder<AnyJson> builder(rules);
  AnyJson::sax_parse(text.begin(), text.end(), &builder);
  return builder.take();
}

template Json parse_json(std::string_view text, const JsonRules& rules);
template OrderedJson parse_json(std::string_view text, const JsonRules& rules);

}  // namespace wmtp
