// The engine: shards a model's state over the ranks, gathers units on demand, reduces gradients, updates.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <strata/communicator.h>
#include <strata/lease.h>
#include <strata/optimizer.h>
#include <strata/options.h>
#include <strata/plan.h>
#include <strata/unit.h>

namespace strata {

// Writes initial values of elements [first, first + values.size()) of a tensor. Called for ranges of any size, so the
// values must depend on the tensor and the element's index alone.
using Initializer = std::function<void(const Tensor& tensor, std::size_t first, std::span<float> values)>;

// Sees the f32 values of elements [first, ...) of a tensor that this rank holds; kind is "master" or a moment's name.
using StateVisitor =
    std::function<void(const Tensor& tensor, std::string_view kind, std::size_t first, std::span<const float> values)>;

struct MicroBatch {
  double weight = 1;  // items (tokens) that this rank's gradients are the mean of; finite, >= 0; an f32 value
};

struct StepOptions {
  double lr = 1e-3;      // rounded to f32; the same on all ranks
  double clip_norm = 0;  // gradients are scaled by min(1, clip_norm / norm); 0 = no clipping; the same on all ranks
};

enum class Skip : std::uint8_t { none, nonfinite, discarded, no_weight };
std::string_view to_string(Skip skip);

struct Waits {  // seconds that the caller's thread waited in this step
  double gather_s = 0;
  double gradient_slot_s = 0;
  double reduce_s = 0;
  double update_s = 0;
  double activations_s = 0;  // stash() for room in its staging, fetch() for bytes
  double peer_s = 0;         // of the above: while a peer had not yet made the matching call
  double host_s = 0;         // of the above: for loads and stores of host memory
  double nvme_s = 0;         // of the above: for loads and stores of the disk

  double total_s() const { return gather_s + gradient_slot_s + reduce_s + update_s + activations_s; }
};

struct TierTraffic {  // of one tier in this step
  std::uint64_t loaded_bytes = 0;
  std::uint64_t stored_bytes = 0;
  double busy_s = 0;  // while at least one load or store was under way
};

struct StepReport {
  std::uint64_t step = 0;  // the attempt that this was: 1, 2, ...
  bool applied = false;
  Skip skip = Skip::none;
  std::string reason;               // "nonfinite: rank 1, tensor 'block.3.wq', element 17"; empty when applied
  double grad_norm = 0;             // before clipping, of the weighted mean gradient
  double loss = 0;                  // weighted mean of record_loss() over ranks and micro-batches; NaN without any
  double weight = 0;                // W: sum of the micro-batch weights of all ranks
  double loss_scale = 1;            // that this step's gradients carried
  std::uint64_t skipped_count = 0;  // skips so far
  std::uint64_t published_overflow_count = 0;  // f16 parameters of the step before that became infinite, this rank's
  std::uint64_t device_bytes = 0;              // held by this rank
  std::uint64_t host_bytes = 0;
  std::uint64_t nvme_bytes = 0;
  std::uint64_t moved_bytes = 0;  // through memory of peers in this step
  TierTraffic host, nvme;
  Waits waits;
};

// The piece in which stash() keeps bytes: a key takes its size rounded up to whole pieces, an empty one takes one.
inline constexpr std::uint64_t stash_piece_bytes = std::uint64_t{256} << 10;

// What a key of this size takes of Options::activation_memory_bytes.
constexpr std::uint64_t stashed_bytes(std::uint64_t size_bytes) {
  const std::uint64_t pieces = (size_bytes + stash_piece_bytes - 1) / stash_piece_bytes;
  return (pieces == 0 ? 1 : pieces) * stash_piece_bytes;
}

// Threading: all calls from one thread; leases as lease.h says. All ranks make the same calls in the same order.
// Failure: after an asynchronous error or a disagreement the engine is failed and every call throws the same cause.
class Engine {
 public:
  // Collective. Allocates what plan() says and nothing later. `communicator` must outlive the engine.
  // Throws invalid_argument, out_of_budget (with the plan's table), mismatch (naming the setting that differs), and
  // `ended` with the plan's table or options_help() where the options ask for that alone and the program has not seen
  // to it.
  Engine(std::vector<Unit> units, std::shared_ptr<const Optimizer> optimizer, Communicator& communicator,
         const Options& options = {});
  ~Engine();  // does not wait for peers; under an exception it tells them, and they get peer_lost at once
  Engine(const Engine&) = delete;
  Engine& operator=(const Engine&) = delete;

  void initialize(const Initializer& initializer);  // collective; only this rank's elements are asked for

  std::span<const Unit> forward_order() const;
  std::span<const Unit> backward_order() const;

  // Begins a micro-batch: what is committed until the next micro_batch(), idle_micro_batch() or step() has this weight.
  void micro_batch(const MicroBatch& micro_batch = {});

  // For a rank without data: takes part in what the others do in a micro-batch, as in the last recorded one (or,
  // without any, forward_order then backward_order with a commit of each trainable unit), with weight 0.
  void idle_micro_batch();

  // The mean loss of the current micro-batch on this rank, for the step's report.
  void record_loss(double loss);

  // The unit's parameters, as of the last step. Waits until they are there. Units may be gathered in any order, again,
  // or not at all. Throws invalid_argument with the holders when `leases` other units are held already.
  ParamLease gather(const Unit& unit);

  // Room for the unit's gradients. Two commits of one unit in a micro-batch (tied weights) add up.
  GradLease gradients(const Unit& unit);

  // Keeps a copy of the bytes, in the home of Options::activations, until fetch() of the same key: for activations that
  // the backward pass will want. Returns when the caller may use its buffer again; a disk is written behind the caller.
  // A step ends without stashes: step() throws, naming the keys. Of this rank alone: other ranks may stash other keys.
  // Throws invalid_argument for a key that is stashed already, out_of_budget (with the option to raise) where less than
  // stashed_bytes() of the room is free; nothing is stashed then. Throws io when an earlier write to the disk failed.
  void stash(std::uint64_t key, std::span<const std::byte> bytes);

  // Stores what was stashed under the key, the same bits, and frees the key. Waits until the bytes are there; from a
  // disk they are read ahead in the reverse order of stashing, which is then the order to fetch in. Throws
  // invalid_argument for a key that is not stashed or a target of another size, io or corruption when the disk fails;
  // the key then stays stashed and the target is undefined.
  void fetch(std::uint64_t key, std::span<std::byte> target);

  // Frees all keys: for a pass that is given up.
  void drop_stashes();

  // What the caller multiplies its loss by before the backward pass: 1, except for f16, where it adapts.
  double loss_scale() const;

  // Ends the attempt: agrees with all ranks on norm, weight and skipping, then updates, or skips on all ranks alike.
  // Returns when that is agreed; the update itself goes on, and gather() waits for the unit that it wants. Throws
  // invalid_argument when leases or stashes live, naming them.
  StepReport step(const StepOptions& options);

  std::uint64_t step_count() const;  // attempts, skipped ones included
  std::uint64_t applied_count() const;

  // While it lives, gathers leave the recorded order alone, and gradients() and step() throw invalid_argument.
  class Evaluation {
   public:
    Evaluation(Evaluation&& other) noexcept : core_(std::exchange(other.core_, nullptr)) {}
    Evaluation& operator=(Evaluation&&) = delete;
    ~Evaluation();

   private:
    friend class Engine;
    explicit Evaluation(detail::EngineCore* core) : core_(core) {}
    detail::EngineCore* core_;
  };
  Evaluation evaluation();

  // Collective: sum(weight_k value_k) / sum(weight_k) over ranks; NaN when the weights are 0.
  double mean_over_ranks(double value, double weight);

  // Collective: 64 bits over names, masters and moments in global element order; the same for the same values, whatever
  // world size, stage or chunk holds them.
  std::uint64_t state_hash();

  // Collective, between steps: other homes, budgets, directories, I/O, prefetch, chunks, threads, deadlines. Moves the
  // state chunk by chunk into memory taken anew and gives the old back; no bit of it changes. Throws, and nothing has
  // changed then, invalid_argument for an option that cannot change (stage, device, dtypes, reduce policy, transport)
  // or while leases or stashes live, and out_of_budget where the plan, or old and new memory together, exceed a budget.
  // Slow as a start; the next step gathers without a recorded order.
  void retune(const Options& options);

  // This rank's part of master and moments, tensors in unit order, ascending ranges. Waits for the update.
  void visit_state(const StateVisitor& visitor);

  const Plan& plan() const;

  // What this machine refused and the engine does without, at the same results: io_uring, direct I/O. A sentence each,
  // for a program to show; empty where nothing was refused.
  std::span<const std::string> warnings() const;
  std::uint64_t device_bytes() const;  // counted where memory is taken: equals plan().total_bytes(TierKind::device)

 private:
  std::unique_ptr<detail::EngineCore> core_;
};

// Fills `values` with normal values of the given deviation; value i depends on (seed, name, first + i) alone.
void fill_normal(std::span<float> values, std::uint64_t seed, std::string_view name, std::size_t first,
                 float deviation);

}  // namespace strata
