# SPDX-License-Identifier: Apache-2.0
"""A TorchX component that runs a PAR on any of TorchX's schedulers.

torchx run -s slurm torch_google/launch/torchx.py:par --par=/shared/train.par --nodes=2 -- ARGUMENTS

Install TorchX on the machine that submits jobs. It is not part of a PAR.
"""

import torchx.specs as specs


def par(
    *arguments: str,
    par: str,
    image: str = "",
    nodes: int = 1,
    processes: int = 1,
    cpu: int = 1,
    memory_mb: int = 4096,
    gpu: int = 0,
    port: int = 29500,
    name: str = "par",
    max_retries: int = 0,
) -> specs.AppDef:
    """Run a PAR in several processes on several machines.

    Args:
        arguments: arguments of the program
        par: path of the PAR where the job runs: in the image, or on a shared file system
        image: address of the image that contains the PAR; empty for schedulers without images
        nodes: number of machines
        processes: number of processes per machine
        cpu: processors per machine
        memory_mb: memory per machine
        gpu: accelerators per machine
        port: port of the first machine, for the rendezvous
        name: name of the job
        max_retries: retries of the whole job
    """
    role = specs.Role(
        name=name,
        image=image,
        entrypoint=par,
        args=[f"--nproc-per-node={processes}", "--", *arguments],
        num_replicas=nodes,
        max_retries=max_retries,
        retry_policy=specs.RetryPolicy.APPLICATION,
        env={
            # torch_google.launch reads these variables. TorchX expands the macros on each machine.
            "MASTER_PORT": str(port),
            "PAR_MAIN": "torch_google.launch",
            "TORCHX_NODE": specs.macros.replica_id,
            "TORCHX_NODES": str(nodes),
            "TORCHX_RANK0_ENV": specs.macros.rank0_env,
        },
        port_map={"c10d": port},
        resource=specs.Resource(cpu=cpu, memMB=memory_mb, gpu=gpu),
    )
    return specs.AppDef(name=name, roles=[role])
