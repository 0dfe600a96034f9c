# Writes OUTPUT, a C++ file with every one of FILES as a raw string, by name in order (see host/log/embedded_sql.hpp).
set(text "// Generated from db/*.sql.\n#include \"log/embedded_sql.hpp\"\n\nnamespace wmtp {\nconst std::map<std::string, std::string>& embedded_sql() {\n  static const std::map<std::string, std::string> files{\n")
foreach(file ${FILES})
  get_filename_component(name ${file} NAME)
  file(READ ${file} sql)
  string(APPEND text "      {\"${name}\", R\"~sql~(${sql})~sql~\"},\n")
endforeach()
string(APPEND text "  };\n  return files;\n}\n}  // namespace wmtp\n")
file(WRITE ${OUTPUT} "${text}")
