// sdk/template/*/* by path below it ("pipeline/NAME.cpp"), built into the program (cmake/EmbedText.cmake writes the
// definition).
#pragma once

#include <map>
#include <string>

namespace wmtp {

const std::map<std::string, std::string>& embedded_templates();

}  // namespace wmtp
