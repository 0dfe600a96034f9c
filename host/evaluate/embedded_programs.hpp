// host/evaluate/programs/*.py by file name, embedded in the program (cmake/EmbedText.cmake generates the definition).
#pragma once

#include <map>
#include <string>

namespace wmtp {

const std::map<std::string, std::string>& embedded_programs();

}  // namespace wmtp
