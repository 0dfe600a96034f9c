// host/core/ui/page/* and dygraphs' script and style by file name, embedded in the program (cmake/EmbedText.cmake
// generates the definition). page.html refers to all of them in loading order.
#pragma once

#include <map>
#include <string>

namespace wmtp {

const std::map<std::string, std::string>& embedded_page();

}  // namespace wmtp
