#include "checkpoint/tensor_check.hpp"

#include "base/text.hpp"
#include "checkpoint/safetensors/number_formats.hpp"

namespace wmtp {

std::optional<StoredTensor> TensorCheck::take(const std::string& name, const std::vector<int64_t>& shape) {
  taken_.insert(name);
  const auto place = files_.find(name);
  if (!place) {
    mistakes_.push_back("tensor " + printable(name) + " is missing; wanted " + shape_text(shape));
    return std::nullopt;
  }
  if (place->entry->shape != shape) {
    mistakes_.push_back("tensor " + printable(name) + " has the shape " + shape_text(place->entry->shape) +
                        "; wanted " + shape_text(shape));
    return std::nullopt;
  }
  if (!is_weight_dtype(place->entry->dtype)) {
    mistakes_.push_back("tensor " + printable(name) + " has the dtype " + place->entry->dtype +
                        "; wanted F32, BF16 or F16");
    return std::nullopt;
  }
  return place;
}

void TensorCheck::check_rest(const std::function<bool(const std::string&)>& is_allowed) {
  for (const std::string& name : files_.names())
    if (!taken_.contains(name) && !(is_allowed && is_allowed(name)))
      mistakes_.push_back("tensor " + printable(name) + " is not part of the model");
}

void refuse_tensors(const std::string& where, const std::vector<std::string>& mistakes, const std::string& advice) {
  constexpr size_t most = 1000;
  if (mistakes.empty()) return;
  std::string text = where + ": " + std::to_string(mistakes.size()) +
                     (mistakes.size() == 1 ? " tensor does" : " tensors do") + " not fit";
  for (size_t i = 0; i < mistakes.size() && i < most; ++i) text += "\n  " + mistakes[i];
  if (mistakes.size() > most) text += "\n  and " + std::to_string(mistakes.size() - most) + " more";
  throw Error(ExitStatus::data, text + "\n" + advice);
}

}  // namespace wmtp
