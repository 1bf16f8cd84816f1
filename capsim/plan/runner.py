from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from capsim.plan.deployment import Deployment
from capsim.plan.experiment import Experiment, Sample, perform
from capsim.plan.ledger import Ledger
from capsim.plan.progress import Progress, Silence


class Runner:
    """Performs experiments, side by side where it may, each once.

    Args:
        deployment: what is simulated.
        jobs: processes; no result depends on it.
        ledger: what is done already, and where it is kept.
        progress: told of each experiment.
    """

    def __init__(
        self,
        deployment: Deployment,
        jobs: int = 1,
        ledger: Ledger | None = None,
        progress: Progress | None = None,
    ) -> None:
        self.deployment = deployment
        self._jobs = jobs
        self._ledger = Ledger(None) if ledger is None else ledger
        self._progress = progress or Silence()
        self.performed = 0

    def of(self, deployment: Deployment) -> Runner:
        """A runner of another deployment, with the same processes, ledger and progress."""
        return Runner(deployment, self._jobs, self._ledger, self._progress)

    def run(self, stage: str, experiments: Sequence[Experiment]) -> list[Sample]:
        """Samples in the order of the experiments; results do not depend on the number of jobs."""
        missing = [e for e in dict.fromkeys(experiments) if self._ledger.get(self._key(e)) is None]
        if missing:
            self._progress.start(stage, len(missing))
        for experiment, sample in self._perform(missing):
            self._ledger.put(self._key(experiment), sample)
            self.performed += 1
            self._progress.advance()
        return [self._done(experiment) for experiment in experiments]

    def _perform(self, experiments: Sequence[Experiment]) -> Iterator[tuple[Experiment, Sample]]:
        """Each as soon as it is done, so that whatever ends this process loses none that is finished."""
        if self._jobs == 1 or len(experiments) < 2:
            return (_performed(self.deployment, experiment) for experiment in experiments)
        from joblib import Parallel, delayed  # not needed to check or run a scenario

        parallel = Parallel(n_jobs=self._jobs, return_as="generator_unordered", batch_size=1)
        tasks: Iterable[object] = (delayed(_performed)(self.deployment, e) for e in experiments)
        samples: Iterator[tuple[Experiment, Sample]] = parallel(tasks)
        return samples

    def _done(self, experiment: Experiment) -> Sample:
        sample = self._ledger.get(self._key(experiment))
        if sample is None:
            raise AssertionError(f"not performed: {experiment}")
        return sample

    def _key(self, experiment: Experiment) -> str:
        return f"{self.deployment.fingerprint} {experiment.key}"


def _performed(deployment: Deployment, experiment: Experiment) -> tuple[Experiment, Sample]:
    return experiment, perform(deployment, experiment)
