"""Audits of policies and samplers: promises proven again from integers, draws tested with a stated risk."""

from epsworth.policy.audit.black_box import SamplerAudit, audit_sampler
from epsworth.policy.audit.policy_audit import Audit, audit_policy

__all__ = ["Audit", "SamplerAudit", "audit_policy", "audit_sampler"]
