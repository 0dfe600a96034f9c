// db/*.sql by file name, built into the program (cmake/EmbedText.cmake writes the definition).
#pragma once

#include <map>
#include <string>

namespace wmtp {

const std::map<std::string, std::string>& embedded_sql();

}  // namespace wmtp
