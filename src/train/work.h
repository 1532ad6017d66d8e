// The model as the pipeline sees it: the step's micro-batches through the
// stage, action by action. Losses of micro-batch m are added to
// engine.sums.loss(m), where this stage has the head.
#pragma once
#include <span>

#include "src/data/batch.h"
#include "src/pipeline/execute.h"
#include "src/train/engine.h"

namespace ogrom {

template <class T>
class ModelWork final : public StageWork {
public:
    // `batches[m]` is micro-batch m of the actions; both outlive this.
    ModelWork(Engine<T>& engine, std::span<const BatchView> batches, const typename Stage<T>::StepInfo& info,
              Passes passes);
    void forward(const Action& action) override;
    void backward(const Action& action) override;
    void backward_input(const Action& action) override;
    void backward_weight(const Action& action) override;
    Boundary activation_in(const Action& action) override;
    Boundary activation_out(const Action& action) override;
    Boundary gradient(const Action& action) override;
    void hand_over(const Boundary& from, const Boundary& to) override;
    // The kernels of a compute action of training on its micro-batch, one after another.
    void enqueue(const Action& action, const typename Stage<T>::StepInfo& info);

private:
    [[nodiscard]] const BatchView& batch_of(const Action& action) const;
    [[nodiscard]] typename Stage<T>::StepInfo info_of(const Action& action) const;
    [[nodiscard]] Boundary boundary(T* data) const;
    void run(const Action& action);  // recorded, or kernel by kernel
    Engine<T>& engine_;
    std::span<const BatchView> batches_;
    typename Stage<T>::StepInfo info_;
    Passes passes_;
};

// Runs a schedule of the engine's stage with that work.
template <class T>
void run_schedule(Engine<T>& engine, const StageSchedule& schedule, ModelWork<T>& work);

}  // namespace ogrom
