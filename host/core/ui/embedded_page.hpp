// host/ui/page/* and dygraphs' script and style by file name, built into the program (cmake/EmbedText.cmake writes the
// definition). page.html names them all, in the order in which they are needed.
#pragma once

#include <map>
#include <string>

namespace wmtp {

const std::map<std::string, std::string>& embedded_page();

}  // namespace wmtp
