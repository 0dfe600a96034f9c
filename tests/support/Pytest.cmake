# wmtp_add_pytest(NAME FILE TIMEOUT): a file of Python tests as one test of ctest. Each starts ranks of its own, so it
# counts as two processors: `ctest -j2` runs one of them at a time.
set(WMTP_PYTHON ${PROJECT_SOURCE_DIR}/.venv/bin/python)
if(NOT EXISTS ${WMTP_PYTHON})
  set(WMTP_PYTHON python3)
endif()
function(wmtp_add_pytest name file timeout)
  add_test(NAME ${name} COMMAND ${WMTP_PYTHON} -B -m pytest -q ${CMAKE_CURRENT_SOURCE_DIR}/${file})
  set_tests_properties(${name} PROPERTIES TIMEOUT ${timeout} PROCESSORS 2
    SKIP_RETURN_CODE 5  # pytest: no test of this file could be collected (see support/needs_torch.py)
    ENVIRONMENT "WMTP_BUILD=${PROJECT_BINARY_DIR};PYTHONDONTWRITEBYTECODE=1")
endfunction()
