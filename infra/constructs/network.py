"""The network that Fargate tasks run in. Nothing can come in; what can go out is a choice."""

from __future__ import annotations

from dataclasses import dataclass

import aws_cdk as cdk
from aws_cdk import aws_ec2 as ec2
from constructs import Construct

from infra.environment import Network

ENDPOINTS = {
    "Sqs": ec2.InterfaceVpcEndpointAwsService.SQS,
    "Logs": ec2.InterfaceVpcEndpointAwsService.CLOUDWATCH_LOGS,
    "ImagesApi": ec2.InterfaceVpcEndpointAwsService.ECR,
    "Images": ec2.InterfaceVpcEndpointAwsService.ECR_DOCKER,
}
"""What a poller reaches besides DynamoDB and S3, whose gateway endpoints cost nothing."""


@dataclass(frozen=True)
class Placement:
    """Where tasks are put."""

    subnets: ec2.SubnetSelection
    public_address: bool


class WorkerNetwork(Construct):
    """A VPC, of one's own or there already, and a security group that lets nothing in."""

    def __init__(self, scope: Construct, construct_id: str, *, network: Network, key_endpoint: bool) -> None:
        """`key_endpoint`: whether tasks call KMS, so that a network without a way out needs an endpoint for it too."""
        super().__init__(scope, construct_id)
        self.vpc, self.placement = self._vpc(network)
        self.security_group = ec2.SecurityGroup(
            self, "Workers", vpc=self.vpc, description="Pollers of tenure: nothing comes in", allow_all_outbound=True
        )
        if network.kind == "endpoints":
            self._endpoints(key_endpoint)

    def _vpc(self, network: Network) -> tuple[ec2.IVpc, Placement]:
        if network.kind == "existing":
            vpc = ec2.Vpc.from_vpc_attributes(
                self, "Vpc", vpc_id=network.vpc_id, availability_zones=list(network.availability_zones)
            )
            subnets = [
                ec2.Subnet.from_subnet_id(self, f"Subnet{number}", subnet)
                for number, subnet in enumerate(network.subnet_ids)
            ]
            for each in subnets:
                cdk.Annotations.of(each).acknowledge_warning(
                    "@aws-cdk/aws-ec2:noSubnetRouteTableId", "Tasks are put into the subnet; its routes are not ours."
                )
            return vpc, Placement(ec2.SubnetSelection(subnets=subnets), public_address=False)
        public = network.kind == "public"
        kind = ec2.SubnetType.PUBLIC if public else ec2.SubnetType.PRIVATE_ISOLATED
        own = ec2.Vpc(
            self,
            "Vpc",
            max_azs=2,
            nat_gateways=0,
            # It would take a custom resource with rights on every security group; nothing here uses the default one.
            restrict_default_security_group=False,
            subnet_configuration=[
                ec2.SubnetConfiguration(
                    name="workers", subnet_type=kind, map_public_ip_on_launch=False if public else None
                )
            ],
            gateway_endpoints={
                "Objects": ec2.GatewayVpcEndpointOptions(service=ec2.GatewayVpcEndpointAwsService.S3),
                "Table": ec2.GatewayVpcEndpointOptions(service=ec2.GatewayVpcEndpointAwsService.DYNAMODB),
            },
        )
        cdk.Validations.of(own).acknowledge(
            cdk.Acknowledgment(
                id="AwsSolutions-VPC7",
                reason="No flow log: nothing listens in this network and nothing can come in; what tasks call is in "
                "CloudTrail. A flow log would cost more than the network does.",
            )
        )
        return own, Placement(ec2.SubnetSelection(subnet_type=kind), public_address=public)

    def _endpoints(self, key_endpoint: bool) -> None:
        wanted = dict(ENDPOINTS, **({"Key": ec2.InterfaceVpcEndpointAwsService.KMS} if key_endpoint else {}))
        for name, service in wanted.items():
            endpoint = ec2.InterfaceVpcEndpoint(
                self, name, vpc=self.vpc, service=service, private_dns_enabled=True, open=False
            )
            endpoint.connections.allow_default_port_from(self.security_group, "HTTPS from the pollers only")
