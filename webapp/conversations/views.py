"""Views of chat images, at signed addresses."""

from __future__ import annotations

from django.http import Http404, HttpRequest, HttpResponse
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_safe

from webapp.conversations.images import image_of_link


@never_cache
@require_safe
def chat_image(request: HttpRequest, signed: str) -> HttpResponse:
    """Return the image; 404 if its address has expired or it was erased."""
    data = image_of_link(signed)
    if data is None:
        raise Http404
    return HttpResponse(data, content_type="image/jpeg")
