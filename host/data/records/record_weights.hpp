// The weights that a line of records gives to an answer:
//
//   "weight": 0.5                                          of all its tokens; of a record also of its prompt
//   "weights": [{"start": 3, "end": 9, "weight": 2}, ...]  of those with a character of [start, end) of the answer,
//                                                          counted from 0 in code points: of `output`, `completion` or
//                                                          the content of a message; in any order, without overlaps
#pragma once

#include <functional>
#include <string>

#include "base/json.hpp"
#include "data/records/record_file.hpp"

namespace wmtp {

/// The values of both fields; null if there is none.
struct GivenWeights {
  const OrderedJson *all, *spans;
};

/// Calls refuse(field, value or null, wanted) for each mistake, the fields' names after `place`. `text`: of the answer;
/// `others`: the weight that it has if none is given.
AnswerWeights read_weights(
    const GivenWeights& given, float others, const std::string& text, const std::string& place,
    const std::function<void(const std::string& field, const OrderedJson* found, const std::string& wanted)>& refuse);

}  // namespace wmtp
