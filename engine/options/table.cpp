#include "engine/options/table.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <array>
#include <bit>
#include <utility>
#include <vector>

#include "engine/options/values.h"

namespace strata::detail {
namespace {

constexpr std::uint32_t chunk_min = 2048;
constexpr std::uint32_t chunk_max = 1U << 20;
constexpr std::uint64_t io_block_min_bytes = 4096;
constexpr std::uint64_t io_block_max_bytes = 16U << 20;
constexpr std::uint64_t io_inflight_max_bytes = 1U << 30;
constexpr std::size_t nvme_dirs_max = 64;
constexpr std::string_view none = "none";

constexpr std::array<Choice<Dtype>, 3> dtypes = {{{"f32", Dtype::f32}, {"bf16", Dtype::bf16}, {"f16", Dtype::f16}}};
constexpr std::array<Choice<ReducePolicy>, 2> policies = {
    {{"micro_batch", ReducePolicy::micro_batch}, {"step", ReducePolicy::step}}};
constexpr std::array<Choice<CommunicatorKind>, 2> communicators = {
    {{"auto", CommunicatorKind::automatic}, {"shm", CommunicatorKind::shm}}};
constexpr std::array<Choice<Progress>, 3> progresses = {
    {{"auto", Progress::automatic}, {"on", Progress::on}, {"off", Progress::off}}};
constexpr std::array<Choice<Home>, 4> homes = {
    {{"auto", Home::automatic}, {"device", Home::device}, {"host", Home::host}, {"nvme", Home::nvme}}};
constexpr std::array<Choice<IoBackend>, 3> io_backends = {
    {{"auto", IoBackend::automatic}, {"uring", IoBackend::uring}, {"threads", IoBackend::threads}}};
constexpr std::array<Choice<bool>, 4> switches = {{{"on", true}, {"off", false}, {"true", true}, {"false", false}}};

Verdict set_stage(Options& options, std::string_view text) {
  const auto value = read_integer<int>(text, 0, 3);
  if (!value) return Verdict::illegal;
  options.stage = *value;
  return Verdict::legal;
}

Verdict set_device(Options& options, std::string_view text) {
  if (text == "cpu") {
    options.device = Device{};
    return Verdict::legal;
  }
  const bool indexed = text.starts_with("cuda:") && read_integer<int>(text.substr(5), 0, 1023);
  return text == "cuda" || indexed ? Verdict::not_built : Verdict::illegal;
}

std::string print_device(const Options& options) {
  const bool plain = options.device == Device{};
  return plain || options.device.kind != DeviceKind::cpu ? to_string(options.device)
                                                         : fmt::format("cpu:{}", options.device.index);
}

Verdict set_leases(Options& options, std::string_view text) {
  const auto value = read_integer<std::uint32_t>(text, 1, 1024);
  if (!value) return Verdict::illegal;
  options.leases = *value;
  return Verdict::legal;
}

Verdict set_chunk(Options& options, std::string_view text) {
  std::optional<std::uint32_t> value;
  const Verdict verdict = set_count(value, text, chunk_min, chunk_max);
  if (verdict != Verdict::legal || (value && !std::has_single_bit(*value))) return Verdict::illegal;
  options.chunk = value;
  return Verdict::legal;
}

Verdict set_io_block(Options& options, std::string_view text) {
  std::uint64_t bytes = 0;
  const bool legal = set_size(bytes, text) == Verdict::legal && std::has_single_bit(bytes) &&
                     bytes >= io_block_min_bytes && bytes <= io_block_max_bytes;
  if (legal) options.io_block_bytes = bytes;
  return legal ? Verdict::legal : Verdict::illegal;
}

Verdict set_io_inflight(Options& options, std::string_view text) {
  std::uint64_t bytes = 0;
  const bool legal =
      set_size(bytes, text) == Verdict::legal && bytes >= io_block_min_bytes && bytes <= io_inflight_max_bytes;
  if (legal) options.io_inflight_bytes = bytes;
  return legal ? Verdict::legal : Verdict::illegal;
}

// "D", "D1,D2"; "none" takes back what a weaker source said.
Verdict set_nvme_dirs(Options& options, std::string_view text) {
  std::vector<std::string> dirs;
  while (text != none) {
    const std::size_t comma = text.find(',');
    const std::string_view dir = text.substr(0, comma);
    if (dir.empty() || dirs.size() == nvme_dirs_max) return Verdict::illegal;
    for (const std::string& earlier : dirs) {
      if (earlier == dir) return Verdict::illegal;
    }
    dirs.emplace_back(dir);
    if (comma == std::string_view::npos) break;
    text.remove_prefix(comma + 1);
  }
  options.nvme_dirs = std::move(dirs);
  return Verdict::legal;
}

std::string print_nvme_dirs(const Options& options) {
  return options.nvme_dirs.empty() ? std::string(none) : fmt::format("{}", fmt::join(options.nvme_dirs, ","));
}

// Where the file is does not live in Options: whoever reads the file has taken the path out of the sources before.
Verdict set_config(Options&, std::string_view text) { return text.empty() ? Verdict::illegal : Verdict::legal; }

constexpr std::string_view size = "bytes as 4096, 512MiB, 1.5GiB or 8G, at most 2^63";
constexpr std::string_view size_or_auto = "bytes as 4096, 512MiB, 1.5GiB or 8G, at most 2^63; or auto";
constexpr std::string_view home_names = "auto, device, host or nvme";

using O = Options;
using T = std::string_view;

constexpr auto table = std::to_array<OptionDescriptor>({
    {"stage", "N", "what is sharded: 0 nothing, 1 optimizer state, 2 gradients too, 3 parameters too",
     "a whole number from 0 to 3", JsonForm::number, Agreement::world, set_stage,
     [](const O& o) { return std::to_string(o.stage); }},
    {"device", "DEVICE", "where leases live and the model computes",
     "cpu; cuda and cuda:N need a build with CUDA, which this version does not have", JsonForm::text, Agreement::world,
     set_device, print_device},
    {"dtype", "DTYPE", "published parameters: what the model computes with", "f32, bf16 or f16", JsonForm::text,
     Agreement::world, [](O& o, T v) { return set_choice(o.dtype, v, dtypes); },
     [](const O& o) { return print_choice(o.dtype, dtypes); }},
    {"grad-dtype", "DTYPE", "gradients as the model hands them in", "f32, bf16 or f16", JsonForm::text,
     Agreement::world, [](O& o, T v) { return set_choice(o.grad_dtype, v, dtypes); },
     [](const O& o) { return print_choice(o.grad_dtype, dtypes); }},
    {"reduce-dtype", "DTYPE", "what each rank's term is rounded to before the f32 sum over ranks", "f32, bf16 or f16",
     JsonForm::text, Agreement::world, [](O& o, T v) { return set_choice(o.reduce_dtype, v, dtypes); },
     [](const O& o) { return print_choice(o.reduce_dtype, dtypes); }},
    {"device-memory", "SIZE", "hard budget of each rank for leases, shards and state; auto: 0.9 of what is free",
     size_or_auto, JsonForm::number_or_text, Agreement::rank,
     [](O& o, T v) { return set_size_or_auto(o.device_memory_bytes, v); },
     [](const O& o) { return print_size_or_auto(o.device_memory_bytes); }},
    {"host-memory", "SIZE",
     "hard budget of each rank for what is kept in host memory; auto: 0.9 of what is free, shared with a cpu device",
     size_or_auto, JsonForm::number_or_text, Agreement::rank,
     [](O& o, T v) { return set_size_or_auto(o.host_memory_bytes, v); },
     [](const O& o) { return print_size_or_auto(o.host_memory_bytes); }},
    {"nvme-memory", "SIZE", "hard budget of each rank in all directories of nvme-dir; auto: 0.9 of what is free",
     size_or_auto, JsonForm::number_or_text, Agreement::rank,
     [](O& o, T v) { return set_size_or_auto(o.nvme_memory_bytes, v); },
     [](const O& o) { return print_size_or_auto(o.nvme_memory_bytes); }},
    {"params", "HOME", "where published shards live; auto: the fastest that has room", home_names, JsonForm::text,
     Agreement::world, [](O& o, T v) { return set_choice(o.params, v, homes); },
     [](const O& o) { return print_choice(o.params, homes); }},
    {"optimizer", "HOME", "where master and moments live; auto: the fastest that has room", home_names, JsonForm::text,
     Agreement::world, [](O& o, T v) { return set_choice(o.optimizer, v, homes); },
     [](const O& o) { return print_choice(o.optimizer, homes); }},
    {"gradients", "HOME", "where gradient accumulators live; auto: the fastest that has room", home_names,
     JsonForm::text, Agreement::world, [](O& o, T v) { return set_choice(o.gradients, v, homes); },
     [](const O& o) { return print_choice(o.gradients, homes); }},
    {"activations", "HOME", "where stashed activations live; auto: the fastest that has room", home_names,
     JsonForm::text, Agreement::world, [](O& o, T v) { return set_choice(o.activations, v, homes); },
     [](const O& o) { return print_choice(o.activations, homes); }},
    {"activation-memory", "SIZE", "room of each rank for stashed activations", size, JsonForm::number_or_text,
     Agreement::world, [](O& o, T v) { return set_size(o.activation_memory_bytes, v); },
     [](const O& o) { return std::to_string(o.activation_memory_bytes); }},
    {"split-master", "SWITCH", "bf16: masters on nvme without the half that the published shard holds", "on or off",
     JsonForm::boolean, Agreement::world, [](O& o, T v) { return set_choice(o.split_master, v, switches); },
     [](const O& o) { return print_choice(o.split_master, switches); }},
    {"nvme-dir", "DIRS", "directory for what lives on nvme; several, with commas between them, are striped",
     "paths, at most 64, each once, as /mnt/a or /mnt/a,/mnt/b; or none", JsonForm::text, Agreement::rank,
     set_nvme_dirs, print_nvme_dirs},
    {"io", "BACKEND", "how the disk is driven; auto: uring, and threads where the kernel refuses that",
     "auto, uring or threads", JsonForm::text, Agreement::rank,
     [](O& o, T v) { return set_choice(o.io, v, io_backends); },
     [](const O& o) { return print_choice(o.io, io_backends); }},
    {"io-inflight", "SIZE", "bytes under way to and from the disk at once", "a size from 4KiB to 1GiB",
     JsonForm::number_or_text, Agreement::rank, set_io_inflight,
     [](const O& o) { return std::to_string(o.io_inflight_bytes); }},
    {"io-block", "SIZE", "bytes of one request to the disk", "a power of two from 4KiB to 16MiB",
     JsonForm::number_or_text, Agreement::rank, set_io_block,
     [](const O& o) { return std::to_string(o.io_block_bytes); }},
    {"prefetch", "N", "units gathered ahead of the caller; auto: what the budget allows, at most 2",
     "a whole number from 0 to 1024; or auto", JsonForm::number_or_auto, Agreement::world,
     [](O& o, T v) { return set_count(o.prefetch, v, 0, 1024); }, [](const O& o) { return print_count(o.prefetch); }},
    {"leases", "N", "units the caller may hold at once", "a whole number from 1 to 1024", JsonForm::number,
     Agreement::world, set_leases, [](const O& o) { return std::to_string(o.leases); }},
    {"chunk", "N", "elements of a shard that are updated in one go; auto: from the budget",
     "a power of two from 2048 to 1048576; or auto", JsonForm::number_or_auto, Agreement::world, set_chunk,
     [](const O& o) { return print_count(o.chunk); }},
    {"threads", "N", "threads of the update; auto: cores / ranks of this machine",
     "a whole number from 1 to 1024; or auto", JsonForm::number_or_auto, Agreement::rank,
     [](O& o, T v) { return set_count(o.threads, v, 1, 1024); }, [](const O& o) { return print_count(o.threads); }},
    {"reduce", "POLICY", "sum gradients over ranks at each commit (least memory), or once a step (least traffic)",
     "micro_batch or step", JsonForm::text, Agreement::world,
     [](O& o, T v) { return set_choice(o.reduce, v, policies); },
     [](const O& o) { return print_choice(o.reduce, policies); }},
    {"comm", "KIND", "how ranks talk; auto: shm", "auto or shm", JsonForm::text, Agreement::world,
     [](O& o, T v) { return set_choice(o.comm, v, communicators); },
     [](const O& o) { return print_choice(o.comm, communicators); }},
    {"timeout", "TIME", "silence of a rank after which it counts as lost",
     "seconds, or a time as 500ms, 30s, 10min or 1h; from 10ms to 1000000s", JsonForm::number_or_text, Agreement::rank,
     [](O& o, T v) { return set_wait(o.timeout_s, v); }, [](const O& o) { return print_wait(o.timeout_s); }},
    {"call-timeout", "TIME", "how long to wait for a live rank that does not make the matching call",
     "seconds, or a time as 500ms, 30s, 10min or 1h; from 10ms to 1000000s", JsonForm::number_or_text, Agreement::rank,
     [](O& o, T v) { return set_wait(o.call_timeout_s, v); }, [](const O& o) { return print_wait(o.call_timeout_s); }},
    {"progress", "WHEN", "the progress line; auto: on a terminal renewed in place, else at most one line a second",
     "auto, on or off", JsonForm::text, Agreement::rank,
     [](O& o, T v) { return set_choice(o.progress, v, progresses); },
     [](const O& o) { return print_choice(o.progress, progresses); }},
    {"plan", "", "print where every byte would be, and end", "on or off", JsonForm::boolean, Agreement::rank,
     [](O& o, T v) { return set_choice(o.plan_only, v, switches); },
     [](const O& o) { return print_choice(o.plan_only, switches); }},
    {config_name, "FILE", "a JSON object of these options, as {\"stage\": 2, \"device-memory\": \"512MiB\"}",
     "the path of a regular file of at most 1 MiB", JsonForm::flag_only, Agreement::rank, set_config,
     [](const O&) { return std::string("none"); }},
    {"help", "", "print this, and end", "on or off", JsonForm::boolean, Agreement::rank,
     [](O& o, T v) { return set_choice(o.help, v, switches); },
     [](const O& o) { return print_choice(o.help, switches); }},
});

}  // namespace

std::span<const OptionDescriptor> option_table() { return table; }

const OptionDescriptor* find_option(std::string_view name) {
  for (const OptionDescriptor& option : table) {
    if (option.name == name) return &option;
  }
  return nullptr;
}

std::string flag_of(std::string_view name) { return fmt::format("{}{}", flag_prefix, name); }

}  // namespace strata::detail
