#include "engine/cli/cmd_doctor.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <memory>
#include <string>
#include <thread>

#include <strata/bytes.h>
#include <strata/detail/host_share.h>
#include <strata/error.h>

#include "engine/cli/exit_status.h"
#include "engine/cli/kernel_offers.h"
#include "engine/cli/local_probe.h"
#include "offload/nvme_tier.h"

namespace strata::cli {
namespace {

void line(std::string_view what, const std::string& found) { fmt::print("  {:<22} {}\n", what, found); }

std::string rate(double bytes_per_s) {
  return bytes_per_s > 0 ? fmt::format("{:.2f} GB/s", bytes_per_s / 1e9) : std::string("not measured");
}

std::string yes_or(bool yes, const std::string& otherwise) { return yes ? "yes" : otherwise; }

void show_processor_and_memory() {
  fmt::print("processor and memory\n");
  line("cores", fmt::format("{} for this process, {} in the machine", detail::usable_core_count(),
                            std::thread::hardware_concurrency()));
  line("available memory", format_bytes(detail::available_memory_bytes()));
  const detail::MemoryGroup group = detail::tightest_memory_group();
  line("control group", group.limit_bytes == detail::unlimited_memory
                            ? "no limit of memory"
                            : fmt::format("limit {}, of which {} are taken", format_bytes(group.limit_bytes),
                                          format_bytes(group.used_bytes)));
  const PageOffer pages = ask_pages();
  line("pages", fmt::format("{}, and {}", format_bytes(pages.small_bytes),
                            pages.huge_bytes == 0 ? "no huge ones" : format_bytes(pages.huge_bytes)));
  line("transparent huge pages",
       fmt::format("mode {}: {}", pages.huge_mode.empty() ? "unknown" : pages.huge_mode,
                   pages.huge_given ? "given when asked for"
                                    : "refused, and the disk loses half of its speed; set "
                                      "/sys/kernel/mm/transparent_hugepage/enabled to madvise"));
  const auto locked_bytes = locked_memory_limit_bytes();
  line("locked memory", locked_bytes ? fmt::format("at most {} (ulimit -l)", format_bytes(*locked_bytes)) : "no limit");
}

void show_uring() {
  fmt::print("io_uring\n");
  const UringOffer uring = ask_uring();
  if (!uring.usable) {
    line("usable", "no: " + uring.refusal);
    line("instead", "threads that read and write: the same results, more processor time");
    return;
  }
  line("usable", "yes");
  line("setup flags", fmt::format("{}", fmt::join(uring.setup_flags, ", ")));
  if (!uring.refused_flags.empty()) {
    line("without", fmt::format("{}: this kernel is older", fmt::join(uring.refused_flags, ", ")));
  }
  line("registered files", yes_or(uring.registers_files, "no"));
  line("registered buffers", yes_or(uring.registers_buffers, "no: " + uring.buffers_refusal));
}

std::string alignment_text(const DirectoryOffer& offer) {
  if (!offer.memory_alignment_bytes) return "the file system does not say; 4 KiB is taken";
  if (*offer.memory_alignment_bytes == 0) return "none: the file system has no direct I/O";
  return fmt::format("memory {}, offsets {}", format_bytes(*offer.memory_alignment_bytes),
                     format_bytes(*offer.offset_alignment_bytes));
}

// False when the directory cannot be used.
bool show_directory(const std::string& dir, const Options& options) {
  constexpr std::uint64_t trial_bytes = std::uint64_t{1} << 20;
  fmt::print("directory {}\n", dir);
  try {
    offload::DiskOptions disk;
    disk.dirs = {dir};
    disk.capacity_bytes = trial_bytes;
    disk.backend = options.io;
    disk.inflight_bytes = options.io_inflight_bytes;
    disk.block_bytes = options.io_block_bytes;
    const offload::NvmeTier tier(disk);
    const DirectoryOffer offer = ask_directory(dir);
    line("file system", fmt::format("{}, {} free", offer.file_system, format_bytes(offer.free_bytes)));
    line("unnamed files", yes_or(offer.unnamed_files, "no: a file is made and its name taken away"));
    line("direct I/O", yes_or(tier.is_direct(), "no: through the page cache"));
    line("alignment", alignment_text(offer));
    line("driven by", fmt::format("{}, in multiples of {}", tier.name(), format_bytes(tier.alignment_bytes())));
    for (const std::string& warning : tier.warnings()) line("refused", warning);
    return true;
  } catch (const Error& error) {
    line("refused", error.text());
    return false;
  }
}

void show_speed(const Options& options, int rank_count) {
  const MachineSpeed speed = probe_this_host(rank_count, options);
  fmt::print("speed of {}; memory counted as it is read and as it is written\n",
             rank_count == 1 ? std::string("one rank") : fmt::format("each of {} ranks at once", rank_count));
  line("update", rate(speed.memory_bytes_per_s));
  line("gather", rate(speed.gather_bytes_per_s));
  line("reduce", rate(speed.reduce_bytes_per_s));
  line("split masters", rate(speed.split_bytes_per_s));
  line("checksum", rate(speed.seal_bytes_per_s));
  line("call between ranks", fmt::format("{:.1f} us", speed.call_overhead_s * 1e6));
  if (options.nvme_dirs.empty()) {
    line("disk", "not measured: give a directory with --strata-nvme-dir");
    return;
  }
  line("disk read", rate(speed.disk_read_bytes_per_s));
  line("disk write", rate(speed.disk_write_bytes_per_s));
  line("disk both at once", rate(speed.disk_both_bytes_per_s));
  if (rank_count == 1) line("disk's processor time", fmt::format("{:.3f} s/GB", speed.disk_processor_s_per_byte * 1e9));
}

int examine(const Options& options, int rank_count) {
  try {
    show_processor_and_memory();
    show_uring();
    bool all_usable = true;
    for (const std::string& dir : options.nvme_dirs) all_usable &= show_directory(dir, options);
    Options measured = options;
    if (!all_usable) measured.nvme_dirs.clear();
    show_speed(measured, rank_count);
    return all_usable ? 0 : status_no;
  } catch (const Error& error) {
    std::fflush(stdout);
    fmt::print(stderr, "strata doctor: {}\n", error.what());
    return status_failed;
  }
}

constexpr const char* description = "What this host offers, and what it refuses: strata doctor --strata-nvme-dir D";
constexpr const char* footer =
    "Measures for a second with 36 MiB of memory for each rank, and at most 128 MiB for each rank on the disk; gives\n"
    "all of it back. Writes nothing that has a name.\n"
    "\n"
    "Exit status: 0; 1 when a directory cannot be used.";

}  // namespace

std::function<int()> add_doctor_command(CLI::App& app, const Options& options) {
  constexpr int ranks_most = 64;
  CLI::App* command = app.add_subcommand("doctor", description);
  command->footer(footer);
  auto rank_count = std::make_shared<int>(1);
  command->add_option("--ranks", *rank_count, "ranks that are to share the host; speeds are those of one of them")
      ->check(CLI::Range(1, ranks_most))
      ->capture_default_str();
  return [rank_count, &options] { return examine(options, *rank_count); };
}

}  // namespace strata::cli
