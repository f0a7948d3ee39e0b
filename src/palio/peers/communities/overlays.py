"""Overlays by name: the kind of member that each is made of."""

from __future__ import annotations

from typing import Final, Literal, TypeAlias, get_args

from palio.filters.filter import Filter
from palio.peers.communities.community_peer import MakeMember, Member
from palio.peers.communities.containment_member import ContainmentMember
from palio.peers.communities.event_sample import EventSample
from palio.peers.communities.member import MemberHost
from palio.peers.communities.messages import Address
from palio.peers.communities.settings import CommunitySettings
from palio.peers.communities.similarity_member import SimilarityMember

Overlay: TypeAlias = Literal["containment", "similarity"]
OVERLAYS: Final = get_args(Overlay)


def member_maker(overlay: Overlay, sample: EventSample) -> MakeMember:
    """What makes members of an overlay, that compare their interests by a sample of events."""
    if overlay == "containment":
        relate = sample.relate

        def containment(address: Address, wanted: Filter, settings: CommunitySettings, host: MemberHost) -> Member:
            return ContainmentMember(address, wanted, settings, relate, host)

        return containment
    proximity = sample.proximity

    def similarity(address: Address, wanted: Filter, settings: CommunitySettings, host: MemberHost) -> Member:
        return SimilarityMember(address, wanted, settings, proximity, host)

    return similarity
