"""The worker: one engine, two runtimes around it (Lambda and Fargate), and the heartbeat that keeps its leases."""
