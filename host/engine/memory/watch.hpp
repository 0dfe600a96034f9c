// Notices when a run needs more memory than was told, so that the log gets few rows, and all that matter.
#pragma once

#include <cstdint>
#include <map>
#include <string>

namespace wmtp {

class MemoryWatch {
 public:
  /// Whether some phase is new, or its most live bytes grew by a twentieth, since this last was true of it.
  bool grew();

 private:
  std::map<std::string, int64_t> told_;  ///< bytes by phase
};

}  // namespace wmtp
