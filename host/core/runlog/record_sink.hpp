// RecordSink: somebody beside the database who is given what a run tells, as it is told.
#pragma once

#include <deque>

#include "core/runlog/records.hpp"

namespace wmtp {

class RecordSink {
 public:
  virtual ~RecordSink() = default;
  /// What was told since the call before: each record once, in order. What it throws ends it: the run and its log go
  /// on, and an event says so. [the log's thread]
  virtual void take(std::deque<Record>::const_iterator begin, std::deque<Record>::const_iterator end) = 0;
};

}  // namespace wmtp
