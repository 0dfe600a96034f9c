// Whether files hold the tensors that a model is made of: all that is missing, misshapen or has no place is told at
// once.
#pragma once

#include <functional>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "core/formats/safetensors/safetensors_folder.hpp"

namespace wmtp {

class TensorCheck {
 public:
  /// The files outlive it.
  explicit TensorCheck(const SafetensorsFolder& files) : files_(files) {}
  /// The tensor, when it has that shape and a dtype of weights; otherwise the mistake is noted.
  std::optional<TensorPlace> take(const std::string& name, const std::vector<int64_t>& shape);
  /// Notes every tensor that was not taken, but those that `may_stay` allows.
  void check_rest(const std::function<bool(const std::string&)>& may_stay);
  const std::vector<std::string>& mistakes() const { return mistakes_; }

 private:
  const SafetensorsFolder& files_;
  std::set<std::string> taken_;
  std::vector<std::string> mistakes_;
};

/// "[4,8]"
std::string shape_text(const std::vector<int64_t>& shape);

/// Error(data) with a line for each mistake, of a thousand at most; nothing when there are none.
void refuse_tensors(const std::string& where, const std::vector<std::string>& mistakes, const std::string& advice);

}  // namespace wmtp
