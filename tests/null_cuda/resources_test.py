"""ptxas's report on our kernels: no spilled registers, and two blocks of 256 threads fit on a multiprocessor."""
import re
import subprocess

import pytest
from paths import BUILD, ROOT, cases

KERNEL = re.compile(r"Compiling entry function '(\w+)' for '\w+'\n.*\n.*?(\d+) bytes spill stores.*\n"
                    r".*Used (\d+) registers")


def report_of(architecture, folder):
    made = BUILD / f"tests/null_cuda/rows_sm_{architecture}.txt"  # by the build, for one architecture
    if made.exists():
        return made.read_text()
    nvcc = re.search(r"^WMTP_NVCC:\w+=(.+)$", (BUILD / "CMakeCache.txt").read_text(), re.M)[1]
    return subprocess.run([nvcc, "-cubin", "-std=c++20", "-O3", "--expt-relaxed-constexpr", "-Xptxas", "-v",
                           f"-arch=sm_{architecture}", f"-I{ROOT}/host", "-o", folder / "rows.cubin",
                           f"{ROOT}/host/cuda/kernels/rows.cu"], check=True, capture_output=True, text=True).stderr


@pytest.mark.soak
@pytest.mark.parametrize("architecture", cases([90], [75, 80, 86, 89, 100, 120]))
def test_no_kernel_spills_registers_or_takes_more_than_128(tmp_path, architecture):
    output = report_of(architecture, tmp_path)
    kernels = KERNEL.findall(output)
    assert len(kernels) > 40, output
    for name, spilled, registers in kernels:
        assert int(spilled) == 0 and int(registers) <= 128, f"{name}: {registers} registers, {spilled} bytes spilled"
