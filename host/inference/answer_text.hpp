// AnswerText: the text of an answer while it is decoded piece by piece: where it ends, and what of it is certain.
#pragma once

#include <string>
#include <utility>
#include <vector>

namespace wmtp {

/// What is not a part of the answer.
struct AnswerLimits {
  std::vector<std::string> stops = {};  ///< the answer ends before the first of them; none is empty
  std::string before = {};              ///< removed from its beginning
  std::string after = {};               ///< removed from its end
};

class AnswerText {
 public:
  explicit AnswerText(AnswerLimits limits) : limits_(std::move(limits)) {}

  /// False if the answer has ended.
  bool add(const std::string& piece);
  /// What has been added since the last call and no further piece can change.
  std::string take_certain();
  /// The rest. [last]
  std::string take_rest();
  /// All of the answer. [last]
  std::string text() const;

 private:
  /// Bytes at the end that may be the beginning of a stop, or of what follows the answer.
  size_t uncertain_bytes() const;

  AnswerLimits limits_;
  std::string text_;
  bool has_begun_ = false;  ///< `before` was removed, or is not there
  size_t taken_ = 0;
};

}  // namespace wmtp
