#include "inference/answer_text.hpp"

#include <algorithm>

namespace wmtp {

bool AnswerText::add(const std::string& piece) {
  text_ += piece;
  size_t fresh = piece.size();
  if (!has_begun_) {
    if (text_.size() < limits_.before.size() && limits_.before.starts_with(text_)) return true;
    if (text_.starts_with(limits_.before)) text_.erase(0, limits_.before.size());
    has_begun_ = true;
    fresh = text_.size();
  }
  size_t first = std::string::npos;
  for (const std::string& stop : limits_.stops)
    first = std::min(first, text_.find(stop, text_.size() - std::min(text_.size(), fresh + stop.size())));
  if (first == std::string::npos) return true;
  text_.resize(first);
  return false;
}

std::string AnswerText::take_certain() {
  const size_t end = has_begun_ ? text_.size() - uncertain_bytes() : 0;
  if (end <= taken_) return "";
  const size_t begin = std::exchange(taken_, end);
  return text_.substr(begin, end - begin);
}

std::string AnswerText::take_rest() {
  const std::string all = text();
  return all.substr(std::min(all.size(), std::exchange(taken_, all.size())));
}

std::string AnswerText::text() const {
  const bool has_after = text_.ends_with(limits_.after);
  return text_.substr(0, text_.size() - (has_after ? limits_.after.size() : 0));
}

size_t AnswerText::uncertain_bytes() const {
  size_t most = 0;
  const auto look = [&](const std::string& mark) {
    for (size_t bytes = std::min(mark.size(), text_.size()); bytes > most; --bytes)
      if (text_.ends_with(std::string_view(mark).substr(0, bytes))) most = bytes;
  };
  for (const std::string& stop : limits_.stops) look(stop);
  look(limits_.after);
  for (const std::string& stop : limits_.stops) look(limits_.after + stop);
  return most;
}

}  // namespace wmtp
